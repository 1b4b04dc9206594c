//! Metrics with the names of Loki's compactor, and of its ring and its appends, for its dashboards
//! and alerts.
//!
//! Loki compacts and applies retention in runs. Here cores do both as soon as there is something to
//! do. So a run has succeeded at this very moment, unless jobs have failed since some other one.

use logsvc_runtime::Monotonic;

use super::Gauges;
use super::exposition::Exposition;

/// What cores do with segments.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Upkeep {
    /// Whether segments are merged.
    pub(crate) compacts: bool,
    /// Whether entries expire.
    pub(crate) expires: bool,
    /// The moment of the scrape.
    pub(crate) now: Monotonic,
}

pub(super) fn expose(out: &mut Exposition, gauges: &Gauges<'_>) {
    let Upkeep { compacts, expires, now } = gauges.upkeep;
    let name = "loki_boltdb_shipper_compactor_running";
    out.single(name, "gauge", "Whether segments are merged here.", u64::from(compacts));
    let name = "loki_boltdb_shipper_compact_tables_operation_total";
    out.family(name, "counter", "Times that segments were merged, rewritten or removed.");
    let maintenance = || gauges.shards.iter().map(|shard| &shard.seal.maintenance);
    let succeeded: u64 = maintenance().map(|m| m.merges + m.removed_segments).sum();
    let failed: u64 = maintenance().map(|m| m.failures).sum();
    out.sample(name, &[("status", "success")], succeeded as f64);
    out.sample(name, &[("status", "failure")], failed as f64);
    let failing = maintenance().filter_map(|m| m.failing_since).map(|since| now.since(since)).max();
    let good_s = gauges.now_ns as f64 / 1e9 - failing.map_or(0.0, |failing| failing.as_secs_f64());
    let is_known = !gauges.shards.is_empty();
    let families = [
        (
            "loki_boltdb_shipper_compact_tables_operation_last_successful_run_timestamp_seconds",
            "Now, or when merging or removing segments began to fail.",
            (compacts && is_known).then_some(good_s),
        ),
        (
            "loki_boltdb_shipper_compact_tables_operation_duration_seconds",
            "Time of the last merge or removal of segments, on the core where it was longest.",
            maintenance().filter_map(|m| m.last_job).max().map(|last| last.as_secs_f64()),
        ),
        (
            "loki_compactor_apply_retention_last_successful_run_timestamp_seconds",
            "If retention is enabled: now, or when merging or removing segments began to fail.",
            (expires && is_known).then_some(good_s),
        ),
    ];
    for (name, help, value) in families {
        out.family(name, "gauge", help);
        if let Some(value) = value {
            out.sample(name, &[], value);
        }
    }
    let name = "loki_ring_members";
    out.family(name, "gauge", "Shards of this node.");
    if is_known {
        let labels = [("name", "ingester"), ("state", "ACTIVE")];
        out.sample(name, &labels, gauges.shards.len() as f64);
    }
    let name = "loki_distributor_ingester_append_failures_total";
    out.family(name, "counter", "Parts of pushes that a shard could not write to its log.");
    for (shard, &failures) in gauges.append_failures.iter().enumerate() {
        out.sample(name, &[("ingester", &shard.to_string())], failures as f64);
    }
}
