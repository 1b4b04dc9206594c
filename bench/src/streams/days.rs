//! The figures of the simulated days: one row for each, which is printed as soon as the day has
//! ended, and sums over all. CPU time is that of the server. Background work may run on into the
//! next day. A figure that the kernel does not show is absent.

use super::load::refused;
use crate::procfs::Usage;
use crate::report::{Tally, per};
use serde_json::{Value, json};

/// The figures of one day.
pub(crate) struct Day {
    pub(crate) tally: Tally,
    pub(crate) seconds: f64,
    pub(crate) before: Usage,
    pub(crate) after: Usage,
}

impl Day {
    /// CPU-seconds of the server per raw GB.
    pub(crate) fn cpu_per_gb(&self) -> Option<f64> {
        let cpu_seconds = self.after.cpu_seconds_since(&self.before)?;
        Some(per(cpu_seconds, self.tally.acked_raw_bytes as f64 / 1e9))
    }

    /// A row for people; days count from one.
    pub(crate) fn row(&self, number: usize) -> String {
        format!(
            "{:>4} {:>10} {:>8} {:>9.3} {:>8.1} {:>12} {:>8}",
            number,
            self.tally.acked_bodies,
            refused(&self.tally),
            self.tally.acked_raw_bytes as f64 / 1e9,
            self.seconds,
            or_dash(self.cpu_per_gb(), |cpu| format!("{cpu:.2}")),
            or_dash(self.after.rss_bytes, megabytes),
        )
    }

    /// The names of the columns of a row.
    pub(crate) fn columns() -> String {
        format!(
            "{:>4} {:>10} {:>8} {:>9} {:>8} {:>12} {:>8}",
            "day", "pushes", "refused", "raw GB", "seconds", "CPU-s per GB", "RSS, MB"
        )
    }

    /// For programs.
    pub(crate) fn figures(&self) -> Value {
        json!({
            "pushes": self.tally.acked_bodies,
            "refused": refused(&self.tally),
            "failed": self.tally.failed_bodies,
            "lines": self.tally.acked_lines,
            "raw_bytes": self.tally.acked_raw_bytes,
            "seconds": self.seconds,
            "cpu_seconds_per_gb": self.cpu_per_gb(),
            "rss_bytes": self.after.rss_bytes,
            "peak_rss_bytes": self.after.peak_rss_bytes,
            "written_bytes": self.after.written_bytes_since(&self.before),
            "latency": self.tally.latencies.to_json(),
            "error_texts": self.tally.error_texts,
        })
    }
}

/// CPU-seconds per raw GB of the last day by those of the first.
pub(crate) fn cpu_ratio(days: &[Day]) -> Option<f64> {
    let (first, last) = (days.first()?.cpu_per_gb()?, days.last()?.cpu_per_gb()?);
    (first > 0.0).then(|| last / first)
}

/// Bytes in MB.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// A figure, or a dash if it is absent.
pub(crate) fn or_dash<T>(figure: Option<T>, show: impl Fn(T) -> String) -> String {
    figure.map_or_else(|| "-".to_owned(), show)
}
