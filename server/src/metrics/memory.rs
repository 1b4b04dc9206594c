//! Metrics of the uses of memory.

use logsvc_runtime::Budget;
use logsvc_shards::messages::ShardStatus;

use super::Exposition;
use super::shards::{ShardFamily, expose_each_shard};

/// Writes the reserved bytes of budgets.
pub(super) fn expose_budgets(out: &mut Exposition, budgets: &[&Budget]) {
    type Read = fn(&Budget) -> u64;
    let families: [(&str, &str, &str, Read); 4] = [
        ("logsvc_memory_used_bytes", "gauge", "Memory reserved from a budget.", Budget::used_bytes),
        (
            "logsvc_memory_peak_bytes",
            "gauge",
            "Most memory ever reserved from a budget.",
            Budget::peak_bytes,
        ),
        ("logsvc_memory_max_bytes", "gauge", "Size of a budget.", Budget::max_bytes),
        (
            "logsvc_memory_refused_total",
            "counter",
            "Requests for memory that a budget refused.",
            Budget::refused_count,
        ),
    ];
    for (name, kind, help, read) in families {
        out.family(name, kind, help);
        for budget in budgets {
            out.sample(name, &[("budget", budget.name())], read(budget) as f64);
        }
    }
}

/// Writes the sizes of the caches of segments.
pub(super) fn expose_caches(out: &mut Exposition, shards: &[ShardStatus]) {
    let families: &[ShardFamily] = &[
        (
            "logsvc_segment_directory_bytes",
            "gauge",
            "Bytes of the directories of segments, in memory or not.",
            |s| s.seal.directory_bytes,
        ),
        (
            "logsvc_refused_streams_total",
            "counter",
            "Times that a new stream was refused because there was no memory for it.",
            |s| s.refused_streams,
        ),
        ("logsvc_directories_held_bytes", "gauge", "Bytes of the directories in memory.", |s| {
            s.directories.held_bytes
        }),
        (
            "logsvc_directories_excess_bytes",
            "gauge",
            "Bytes of directories in use for which there was no room.",
            |s| s.directories.excess_bytes,
        ),
        ("logsvc_directories_hits_total", "counter", "Directories found in memory.", |s| {
            s.directories.hits
        }),
        ("logsvc_directories_loads_total", "counter", "Directories that had to be read.", |s| {
            s.directories.loads
        }),
        (
            "logsvc_directories_evictions_total",
            "counter",
            "Directories that had to go for others.",
            |s| s.directories.evictions,
        ),
        ("logsvc_cache_hits_total", "counter", "Decoded columns found in the cache.", |s| {
            s.cache.hits
        }),
        ("logsvc_cache_misses_total", "counter", "Columns that had to be read and decoded.", |s| {
            s.cache.misses
        }),
        ("logsvc_cache_evictions_total", "counter", "Columns that had to go for others.", |s| {
            s.cache.evictions
        }),
        ("logsvc_cache_bytes", "gauge", "Bytes of decoded columns in the cache.", |s| {
            s.cache.held_bytes
        }),
    ];
    expose_each_shard(out, shards, families);
}
