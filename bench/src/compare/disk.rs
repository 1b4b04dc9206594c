//! How evenly the idle disk takes durable writes.
//!
//! A server that acknowledges durable data cannot be faster than its disk. The disk of a virtual
//! machine may stall for hundreds of milliseconds now and then, independently of any program. Such
//! stalls are part of every latency of pushes.

use crate::latency::Latencies;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes that are written over old ones and forced to the disk at once.
const WRITE_BYTES: usize = 128 << 10;
/// From one write to the next.
const INTERVAL: Duration = Duration::from_millis(10);
/// Pieces of the file, which are written in turns.
const PIECES: u64 = 64;

/// The figures.
pub(crate) struct Disk {
    /// From when each write was due to its end, as for pushes at a fixed rate.
    latencies: Latencies,
}

/// Writes to a file in `folder` for `time`.
pub(crate) fn measure(folder: &Path, time: Duration) -> Result<Disk> {
    let path = folder.join("bench-disk");
    let file = File::create(&path).with_context(|| format!("creating {path:?}"))?;
    let block = vec![b'x'; WRITE_BYTES];
    let offset_of = |number: u64| number % PIECES * WRITE_BYTES as u64;
    for piece in 0..PIECES {
        file.write_all_at(&block, offset_of(piece))?;
    }
    file.sync_all()?;
    let mut latencies = Latencies::new();
    let begin = Instant::now();
    let mut due = Duration::ZERO;
    for number in 0.. {
        if due >= time {
            break;
        }
        thread::sleep(due.saturating_sub(begin.elapsed()));
        file.write_all_at(&block, offset_of(number))?;
        file.sync_data()?;
        latencies.record(begin.elapsed().saturating_sub(due));
        due += INTERVAL;
    }
    std::fs::remove_file(&path)?;
    Ok(Disk { latencies })
}

impl Disk {
    pub(crate) fn figures(&self) -> Value {
        json!({
            "write_kib": WRITE_BYTES >> 10,
            "interval_ms": INTERVAL.as_millis() as u64,
            "latency": self.latencies.to_json(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn writes_come_at_their_times_and_leave_nothing_behind() {
        let folder = TempDir::new();
        let disk = measure(folder.path(), Duration::from_millis(95)).unwrap();
        assert_eq!(disk.latencies.count(), 10);
        assert!(disk.latencies.min_ms() > 0.0);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert!(measure(&folder.path().join("missing"), Duration::ZERO).is_err());
    }
}
