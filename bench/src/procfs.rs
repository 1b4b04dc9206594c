//! The resources that a process has used, read from `/proc` (proc_pid_stat(5), proc_pid_io(5)).
//! Parsing is separate from reading, so that tests use fixed texts. A figure that the kernel
//! does not show is absent, never zero.

use std::path::Path;

/// Clock ticks per second in `/proc/PID/stat`. The kernel's user interface fixes
/// USER_HZ at 100 on every architecture that this tool runs on.
const TICKS_PER_SECOND: f64 = 100.0;

/// A process's counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    /// User and system time of all threads, in seconds.
    pub(crate) cpu_seconds: Option<f64>,
    /// Largest resident size so far, in bytes.
    pub(crate) peak_rss_bytes: Option<u64>,
    /// Resident size now, in bytes.
    pub(crate) rss_bytes: Option<u64>,
    /// Bytes that the process caused to be sent to storage.
    pub(crate) written_bytes: Option<u64>,
    /// Bytes that the process caused to be fetched from storage.
    pub(crate) read_bytes: Option<u64>,
}

impl Usage {
    /// Counters of process `pid`.
    pub(crate) fn of(pid: u32) -> Usage {
        Usage::of_folder(&Path::new("/proc").join(pid.to_string()))
    }

    /// Counters of this process.
    pub(crate) fn own() -> Usage {
        Usage::of_folder(Path::new("/proc/self"))
    }

    fn of_folder(folder: &Path) -> Usage {
        let text = |name| std::fs::read_to_string(folder.join(name)).ok();
        let status = text("status").unwrap_or_default();
        let io = text("io").unwrap_or_default();
        Usage {
            cpu_seconds: text("stat").and_then(|stat| cpu_seconds(&stat)),
            peak_rss_bytes: field(&status, "VmHWM").map(|kib| kib * 1024),
            rss_bytes: field(&status, "VmRSS").map(|kib| kib * 1024),
            written_bytes: field(&io, "write_bytes"),
            read_bytes: field(&io, "read_bytes"),
        }
    }

    /// CPU seconds used since `earlier`.
    pub(crate) fn cpu_seconds_since(&self, earlier: &Usage) -> Option<f64> {
        Some(self.cpu_seconds? - earlier.cpu_seconds?)
    }

    /// The sum of the counters of two processes; absent where one of them is.
    pub(crate) fn plus(&self, other: &Usage) -> Usage {
        let sum = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        Usage {
            cpu_seconds: self.cpu_seconds.zip(other.cpu_seconds).map(|(one, other)| one + other),
            peak_rss_bytes: sum(self.peak_rss_bytes, other.peak_rss_bytes),
            rss_bytes: sum(self.rss_bytes, other.rss_bytes),
            written_bytes: sum(self.written_bytes, other.written_bytes),
            read_bytes: sum(self.read_bytes, other.read_bytes),
        }
    }

    /// Bytes read since `earlier`.
    pub(crate) fn read_bytes_since(&self, earlier: &Usage) -> Option<u64> {
        self.read_bytes?.checked_sub(earlier.read_bytes?)
    }

    /// Bytes written since `earlier`.
    pub(crate) fn written_bytes_since(&self, earlier: &Usage) -> Option<u64> {
        self.written_bytes?.checked_sub(earlier.written_bytes?)
    }
}

/// utime + stime, the 14th and 15th field of `/proc/PID/stat`. Counted from behind
/// the command's name, which may hold spaces and brackets itself.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

/// The number behind `name:`.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        line.strip_prefix(name)?.strip_prefix(':')?.split_whitespace().next()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_behind_the_command_name() {
        let stat = "4711 (a b) c) S 1 2 3 4 -1 4194304 117 0 0 0 250 50 7 8 20 0 1 0 113772 99 390";
        assert_eq!(cpu_seconds(stat), Some(3.0));
        assert_eq!(cpu_seconds("4711 (cut"), None);
        assert_eq!(cpu_seconds("4711 (x) S 1 2 3"), None);
    }

    #[test]
    fn fields_are_matched_by_their_whole_name() {
        let text = "VmHWMX:\t1 kB\nVmHWM:\t    2288 kB\nVmRSS: none\n";
        assert_eq!(field(text, "VmHWM"), Some(2288));
        assert_eq!(field(text, "VmRSS"), None);
        assert_eq!(field(text, "VmPeak"), None);
    }

    #[test]
    fn this_process_has_counters_and_a_missing_one_has_none() {
        let usage = Usage::own();
        assert!(usage.cpu_seconds.is_some() && usage.peak_rss_bytes > Some(100_000), "{usage:?}");
        // Process numbers end below 2^22.
        assert_eq!(Usage::of(u32::MAX), Usage::default());
    }
}
