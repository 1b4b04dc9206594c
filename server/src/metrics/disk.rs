//! Metrics of the file system that holds the data: its size, and what is free for this process.

use logsvc_runtime::DiskSpace;

use super::Exposition;

/// Writes the numbers; only the names if the system does not tell them.
pub(super) fn expose(disk: Option<DiskSpace>, out: &mut Exposition) {
    let disk = disk.filter(|disk| disk.total_bytes > 0);
    let used = disk.map(|disk| {
        1.0 - disk.available_bytes.min(disk.total_bytes) as f64 / disk.total_bytes as f64
    });
    let families = [
        (
            "loki_ingester_wal_disk_usage_percent",
            "Used part of the file system with the log, 0 to 1.",
            used,
        ),
        (
            "logsvc_disk_size_bytes",
            "Size of the file system with the data.",
            disk.map(|disk| disk.total_bytes as f64),
        ),
        (
            "logsvc_disk_free_bytes",
            "Bytes of it that the server may still use.",
            disk.map(|disk| disk.available_bytes as f64),
        ),
    ];
    for (name, help, value) in families {
        out.family(name, "gauge", help);
        if let Some(value) = value {
            out.sample(name, &[], value);
        }
    }
}
