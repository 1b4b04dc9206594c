//! Watches a server under attack: whether it answers, whether it takes pushes, and how much
//! memory it uses.
//!
//! Guarantee: a server far above its memory ceiling is killed at once, so that a successful
//! attack does not harm the machine. So is a server that does not answer until the end of the
//! round.

use super::http::{Request, send};
use anyhow::{Context, Result};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time between two requests of `/ready`, and between two pushes.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(10);

/// Time between two readings of the memory.
const MEMORY_INTERVAL: Duration = Duration::from_millis(5);

/// A server that takes this many times its ceiling is killed.
const KILL_FACTOR: u64 = 3;

/// The observations of one round.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// How long `/ready` took, each time.
    pub(super) ready: Vec<Duration>,
    /// How long each stored push took.
    pub(super) pushes: Vec<Duration>,
    /// How many times `/ready` or a push was refused or not answered, and the first refusal.
    pub(super) refused: usize,
    pub(super) first_refusal: Option<String>,
    /// The most memory that the process ever had, but for pages of files: its code.
    pub(super) peak_bytes: u64,
    /// Why the server was ended.
    pub(super) ended: Option<String>,
}

/// The threads that watch a server, see the module's header.
pub(super) struct Monitor {
    stop: Arc<AtomicBool>,
    peak_bytes: Arc<AtomicU64>,
    ready: JoinHandle<Samples>,
    pushes: JoinHandle<Samples>,
    memory: JoinHandle<Option<String>>,
}

#[derive(Debug, Default)]
struct Samples {
    took: Vec<Duration>,
    refused: Vec<String>,
}

/// The server under attack.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watched {
    pub(super) port: u16,
    pub(super) pid: u32,
    /// Memory that it may take.
    pub(super) ceiling_bytes: u64,
    /// After this time the round ends and the server is killed.
    pub(super) round_limit: Duration,
}

impl Monitor {
    pub(super) fn start(watched: Watched) -> Monitor {
        let stop = Arc::new(AtomicBool::new(false));
        let peak_bytes = Arc::new(AtomicU64::new(0));
        let (port, limit) = (watched.port, watched.round_limit);
        let stopped = Arc::clone(&stop);
        let ready = thread::spawn(move || {
            sample(&stopped, || send(port, &Request::get("/ready"), limit).and_then(expect(200)))
        });
        let stopped = Arc::clone(&stop);
        let pushes = thread::spawn(move || {
            sample(&stopped, || {
                let json = one_line(nanos_now());
                send(port, &Request::push("witness", &json), limit).and_then(expect(204))
            })
        });
        let (stopped, peak) = (Arc::clone(&stop), Arc::clone(&peak_bytes));
        let memory = thread::spawn(move || guard(&watched, &stopped, &peak));
        Monitor { stop, peak_bytes, ready, pushes, memory }
    }

    /// Ends the monitor and returns its figures.
    pub(super) fn finish(self) -> Seen {
        self.stop.store(true, Ordering::Relaxed);
        let ready = self.ready.join().expect("it does not panic");
        let pushes = self.pushes.join().expect("it does not panic");
        let ended = self.memory.join().expect("it does not panic");
        Seen {
            refused: ready.refused.len() + pushes.refused.len(),
            first_refusal: pushes.refused.into_iter().chain(ready.refused).next(),
            ready: ready.took,
            pushes: pushes.took,
            peak_bytes: self.peak_bytes.load(Ordering::Relaxed),
            ended,
        }
    }
}

fn expect(status: u16) -> impl Fn(super::http::Answer) -> Result<Duration> {
    move |answer| {
        anyhow::ensure!(answer.status == status, "{}: {}", answer.status, answer.text.trim());
        Ok(answer.took)
    }
}

fn sample(stop: &AtomicBool, ask: impl Fn() -> Result<Duration>) -> Samples {
    let mut looks = Samples::default();
    while !stop.load(Ordering::Relaxed) {
        match ask() {
            Ok(took) => looks.took.push(took),
            Err(error) => looks.refused.push(format!("{error:#}")),
        }
        thread::sleep(SAMPLE_INTERVAL);
    }
    looks
}

fn guard(watched: &Watched, stop: &AtomicBool, peak_bytes: &AtomicU64) -> Option<String> {
    let end = Instant::now() + watched.round_limit;
    while !stop.load(Ordering::Relaxed) {
        // The process may be gone, which all others notice.
        let Ok(now) = peak_of(watched.pid) else { return Some("the server is gone".to_owned()) };
        peak_bytes.fetch_max(now, Ordering::Relaxed);
        let why = if now > watched.ceiling_bytes * KILL_FACTOR {
            format!("it had {} MB", now >> 20)
        } else if Instant::now() > end {
            format!("the round was not over after {} s", watched.round_limit.as_secs())
        } else {
            thread::sleep(MEMORY_INTERVAL);
            continue;
        };
        let killed = Command::new("kill").args(["-KILL", &watched.pid.to_string()]).status();
        return Some(format!(
            "ended: {why} ({})",
            killed.map_or_else(|e| e.to_string(), |s| s.to_string())
        ));
    }
    None
}

/// The most memory that a process ever had, in bytes, without the pages of files that it has now. Those are
/// its code: how many are there depends on the build and on the kernel, which can drop them at any time.
fn peak_of(pid: u32) -> Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let bytes = |name: &str| -> Result<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes = kilobytes.with_context(|| format!("no {name} in its status"))?;
        Ok(kilobytes.trim().parse::<u64>()? << 10)
    };
    Ok(bytes("VmHWM:")?.saturating_sub(bytes("RssFile:")?))
}

/// A push of one line with this time.
fn one_line(nanos: u128) -> String {
    format!(r#"{{"streams":[{{"stream":{{"job":"witness"}},"values":[["{nanos}","a line"]]}}]}}"#)
}

/// The time, in nanoseconds since the Unix epoch.
pub(super) fn nanos_now() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos())
}

/// The value that this share of all is not above; none of none.
pub(super) fn percentile(values: &[Duration], share: f64) -> Duration {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    let place = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(place.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values() {
        let values: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&values, 0.99), Duration::from_millis(99));
        assert_eq!(percentile(&values, 1.0), Duration::from_millis(100));
        assert_eq!(percentile(&values[..1], 0.99), Duration::from_millis(100));
        assert_eq!(percentile(&[], 0.99), Duration::ZERO);
    }

    #[test]
    fn a_process_that_takes_too_much_is_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let watched = Watched {
            port: 0,
            pid: child.id(),
            ceiling_bytes: 1,
            round_limit: Duration::from_secs(50),
        };
        let peak_bytes = AtomicU64::new(0);
        let ended = guard(&watched, &AtomicBool::new(false), &peak_bytes);
        assert!(ended.unwrap().contains("it had"));
        assert!(!child.wait().unwrap().success());
        assert!(peak_bytes.load(Ordering::Relaxed) > 1);
    }

    #[test]
    fn a_server_that_nobody_finds_is_seen() {
        // Port 0 takes no connection, and this process is there.
        let watched = Watched {
            port: 0,
            pid: std::process::id(),
            ceiling_bytes: 1 << 40,
            round_limit: Duration::from_secs(50),
        };
        let monitor = Monitor::start(watched);
        thread::sleep(Duration::from_millis(30));
        let seen = monitor.finish();
        assert!(seen.refused > 0 && seen.ready.is_empty() && seen.pushes.is_empty());
        assert!(seen.first_refusal.unwrap().contains("connecting"));
        assert_eq!(seen.ended, None);
    }
}
