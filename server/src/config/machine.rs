//! Facts of the machine on which settings depend.

use std::io::{self, Read};

use logsvc_runtime::LaunchOptions;

/// CPUs and memory of the machine, or of the part that the process may use.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// CPUs that the process may use.
    pub(crate) cores: u16,
    /// Memory of the machine, or of the control group if that has less; or why it is
    /// not known.
    pub(crate) memory_bytes: Result<u64, String>,
}

impl Machine {
    /// Looks at the machine. Reads /proc and /sys, so only for the start.
    pub(crate) fn detect() -> Machine {
        Machine { cores: LaunchOptions::default().cores, memory_bytes: memory_bytes() }
    }
}

fn memory_bytes() -> Result<u64, String> {
    let path = "/proc/meminfo";
    let text = read_small(path).map_err(|error| format!("cannot read {path}: {error}"))?;
    let total = parse_meminfo(&text).ok_or_else(|| format!("{path} has no MemTotal"))?;
    // Most processes are in no control group, or see no file of it.
    let group = read_small("/sys/fs/cgroup/memory.max").ok();
    // The file says `max` if there is no limit.
    let group = group.and_then(|text| text.trim().parse().ok());
    Ok(group.map_or(total, |limit: u64| limit.min(total)))
}

/// Value of `MemTotal:       16309472 kB`, in bytes.
fn parse_meminfo(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn read_small(path: &str) -> io::Result<String> {
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
    fn this_machine_is_known() {
        let machine = Machine::detect();
        assert!(machine.cores >= 1);
        assert!(machine.memory_bytes.expect("/proc is mounted") > 1 << 20);
    }
}
