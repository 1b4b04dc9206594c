//! The standard `process_*` metrics, as the system tells them.

use std::io::{self, Read};

use super::Exposition;

/// The unit of processor time in `/proc`, whatever the clock of the kernel.
const TICKS_PER_S: f64 = 100.0;

/// Numbers of the process.
#[derive(Debug, PartialEq)]
struct Process {
    cpu_s: f64,
    threads: u64,
    virtual_bytes: u64,
    resident_bytes: u64,
}

/// Writes the known metrics; without `/proc`, only the time of the start.
pub(super) fn expose(started_ns: i64, out: &mut Exposition) {
    let start = "Start of the process, in seconds since the Unix epoch.";
    out.family("process_start_time_seconds", "gauge", start);
    out.sample("process_start_time_seconds", &[], started_ns as f64 / 1e9);
    let texts = read_small("/proc/self/stat").and_then(|stat| {
        let status = read_small("/proc/self/status")?;
        Ok((stat, status))
    });
    let Some(process) = texts.ok().and_then(|(stat, status)| parse(&stat, &status)) else { return };
    let families = [
        ("process_cpu_seconds_total", "counter", "Processor time.", process.cpu_s),
        ("process_threads", "gauge", "Threads.", process.threads as f64),
        (
            "process_virtual_memory_bytes",
            "gauge",
            "Address space in use.",
            process.virtual_bytes as f64,
        ),
        ("process_resident_memory_bytes", "gauge", "Memory in use.", process.resident_bytes as f64),
    ];
    for (name, kind, help, value) in families {
        out.family(name, kind, help);
        out.sample(name, &[], value);
    }
    let open = open_files().ok();
    let limit = read_small("/proc/self/limits").ok().and_then(|text| open_files_limit(&text));
    let families = [
        ("process_open_fds", "Open file descriptors.", open),
        ("process_max_fds", "Most file descriptors that may be open.", limit),
    ];
    for (name, help, value) in families {
        if let Some(value) = value {
            out.single(name, "gauge", help, value);
        }
    }
}

fn open_files() -> io::Result<u64> {
    #[expect(clippy::disallowed_methods, reason = "procfs is memory: nothing blocks")]
    let entries = std::fs::read_dir("/proc/self/fd")?;
    // The one that the folder is read with is not counted.
    Ok((entries.count() as u64).saturating_sub(1))
}

/// The soft limit.
fn open_files_limit(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

fn parse(stat: &str, status: &str) -> Option<Process> {
    // The name of the program may hold anything, but it ends with the last bracket.
    let behind_name = stat.rsplit_once(')')?.1;
    let field = |place: usize| behind_name.split_ascii_whitespace().nth(place)?.parse::<u64>().ok();
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
    };
    Some(Process {
        cpu_s: field(11)?.saturating_add(field(12)?) as f64 / TICKS_PER_S,
        threads: field(17)?,
        virtual_bytes: line("VmSize")?,
        resident_bytes: line("VmRSS")?,
    })
}

fn read_small(path: &str) -> io::Result<String> {
    #[expect(clippy::disallowed_methods, reason = "procfs is memory: nothing blocks")]
    let file = std::fs::File::open(path)?;
    let mut text = String::new();
    file.take(64 << 10).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::super::ExpositionFormat;
    use super::*;

    #[test]
    fn files_of_the_system_are_read() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 4 18 19 20 21\n";
        let status = "Name:\ta\nVmSize:\t  2000 kB\nVmRSS:\t 1000 kB\n";
        let process = Process {
            cpu_s: 3.0,
            threads: 4,
            virtual_bytes: 2000 << 10,
            resident_bytes: 1000 << 10,
        };
        assert_eq!(parse(stat, status), Some(process));
        for (stat, status) in [("", status), ("7 (a) S 1", status), (stat, ""), (stat, "VmRSS: 1")]
        {
            assert_eq!(parse(stat, status), None, "{stat:?} {status:?}");
        }
        let mut out = Exposition::new(ExpositionFormat::Text);
        expose(1_500_000_000, &mut out);
        let text = out.into_text();
        assert!(text.contains("process_start_time_seconds 1.5\n"), "{text}");
        assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
        assert!(text.contains("\nprocess_open_fds ") && text.contains("\nprocess_max_fds "));
        let limits = "Limit  Soft  Hard\nMax open files            1024   4096  files\n";
        assert_eq!(open_files_limit(limits), Some(1024));
        assert_eq!(open_files_limit("Max open files  unlimited\n"), None);
    }
}
