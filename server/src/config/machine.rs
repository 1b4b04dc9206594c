//! Facts of the machine on which settings depend.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use logsvc_runtime::LaunchOptions;

use super::cgroup::{self, GroupLimits};

/// CPUs and memory of the machine, or of the part that the process may use.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// CPUs that the process may use.
    pub(crate) cores: u16,
    /// Memory of the machine, or of the control group if that has less; or why it is
    /// not known.
    pub(crate) memory_bytes: Result<u64, String>,
    /// What the control group limits below the machine, in words.
    pub(crate) limited_by: Option<&'static str>,
}

impl Machine {
    /// Looks at the machine. Reads /proc and /sys, so only for the start.
    pub(crate) fn detect() -> Machine {
        let read = |path: &Path| read_small(path).ok();
        Machine::within(LaunchOptions::default().cores, memory_bytes(), cgroup::limits(&read))
    }

    /// CPUs and memory within the limits of control groups.
    fn within(cpus: u16, memory_bytes: Result<u64, String>, limits: GroupLimits) -> Machine {
        // Two and a half CPUs keep three cores busy most of the time.
        let group_cpus = limits.cpus.map_or(u16::MAX, |cpus| cpus.ceil().max(1.0) as u16);
        let group_bytes = limits.memory_bytes.unwrap_or(u64::MAX);
        let has_less_memory = memory_bytes.as_ref().is_ok_and(|bytes| group_bytes < *bytes);
        let limited_by = match (group_cpus < cpus, has_less_memory) {
            (true, true) => Some("CPUs and memory of the control group"),
            (true, false) => Some("CPUs of the control group"),
            (false, true) => Some("memory of the control group"),
            (false, false) => None,
        };
        Machine {
            cores: cpus.min(group_cpus),
            memory_bytes: memory_bytes.map(|bytes| bytes.min(group_bytes)),
            limited_by,
        }
    }
}

/// The user that the process runs as, for people.
pub(crate) fn user() -> String {
    let Ok(process) = std::fs::metadata("/proc/self") else { return "an unknown user".to_owned() };
    let uid = process.uid();
    let users = read_small(Path::new("/etc/passwd")).unwrap_or_default();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then_some(name)
    });
    match name {
        Some(name) => format!("the user {name} (uid {uid})"),
        None => format!("the user with uid {uid}"),
    }
}

fn memory_bytes() -> Result<u64, String> {
    let path = "/proc/meminfo";
    let text =
        read_small(Path::new(path)).map_err(|error| format!("cannot read {path}: {error}"))?;
    parse_meminfo(&text).ok_or_else(|| format!("{path} has no MemTotal"))
}

/// Value of `MemTotal:       16309472 kB`, in bytes.
fn parse_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn read_small(path: &Path) -> io::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "at the start, before there is any core")]
    let file = std::fs::File::open(path)?;
    let mut text = String::new();
    file.take(64 << 10).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_read() {
        let text = "MemFree: 5 kB\nMemTotal:       16309472 kB\nBuffers: 1 kB\n";
        assert_eq!(parse_meminfo(text), Some(16_309_472 << 10));
        for text in ["", "MemTotal:", "MemTotal: x kB", "MemTotal: 99999999999999999999 kB"] {
            assert_eq!(parse_meminfo(text), None, "{text}");
        }
    }

    #[test]
    fn the_least_counts() {
        let within =
            |memory_bytes, cpus| Machine::within(4, Ok(1000), GroupLimits { memory_bytes, cpus });
        for (memory, cpus, expected) in [
            (None, None, (4, 1000, false)),
            (Some(10), None, (4, 10, true)),
            (Some(2000), Some(0.5), (1, 1000, true)),
            (Some(1), Some(2.5), (3, 1, true)),
            (None, Some(1e9), (4, 1000, false)),
        ] {
            let Machine { cores, memory_bytes, limited_by } = within(memory, cpus);
            assert_eq!((cores, memory_bytes.expect("known"), limited_by.is_some()), expected);
        }
        assert!(user().contains("uid"), "{}", user());
    }

    #[test]
    fn this_machine_is_known() {
        let machine = Machine::detect();
        assert!(machine.cores >= 1);
        assert!(machine.memory_bytes.expect("/proc is mounted") > 1 << 20);
    }
}
