//! Counters of the front cores, and the text that `/metrics` answers.
//!
//! Every core writes to its own slot only, with relaxed atomics, so counting
//! costs no cache line that another core writes; a scrape adds the slots up.

mod exposition;
mod histogram;
mod lags;
mod memory;
mod process;
mod pushes;
mod queries;
mod requests;
mod shards;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use logsvc_runtime::{Budget, CoreId};
use logsvc_shards::messages::ShardStatus;

use crate::config::Choice;
use crate::front::query::queue::QueueStatus;
use crate::reload::Reloads;
use exposition::Exposition;
pub(crate) use exposition::ExpositionFormat;
use histogram::{Histogram, Latencies};
pub(crate) use histogram::{LineCounts, LineLengths};
use lags::Lags;
pub(crate) use lags::PushFormat;
use pushes::Pushes;
pub(crate) use pushes::{Amount, Mutation, Reason};
use queries::Queries;
pub(crate) use queries::QueryKind;
use requests::Requests;
use shards::{expose_compactor, expose_shards};

/// Names under which requests are counted; the last stands for all others.
pub(crate) static ROUTES: [&str; 41] = [
    "loki_api_v1_push",
    "api_prom_push",
    "otlp_v1_logs",
    "loki_api_v1_query",
    "loki_api_v1_query_range",
    "api_prom_query",
    "loki_api_v1_labels",
    "loki_api_v1_label_name_values",
    "loki_api_v1_series",
    "loki_api_v1_index_stats",
    "loki_api_v1_index_shards",
    "loki_api_v1_index_volume",
    "loki_api_v1_index_volume_range",
    "loki_api_v1_detected_fields",
    "loki_api_v1_detected_field_name_values",
    "loki_api_v1_detected_labels",
    "loki_api_v1_patterns",
    "loki_api_v1_tail",
    "api_prom_tail",
    "loki_api_v1_format_query",
    "loki_api_v1_status_buildinfo",
    "ready",
    "metrics",
    "log_level",
    "services",
    "config",
    "config_tenant_v1_limits",
    "loki_api_v1_drilldown_limits",
    "loki_api_v1_cache_generation_numbers",
    "loki_api_v1_cache_generation_numbers_increase",
    "flush",
    "flush_tenant",
    "ingester_prepare_shutdown",
    "ingester_shutdown",
    "ingester_flush_shutdown",
    "ring",
    "memberlist",
    "loki_api_v1_rules",
    "loki_api_v1_delete",
    "root",
    requests::OTHER,
];

/// Counters of one core.
#[derive(Debug)]
pub(crate) struct CoreMetrics {
    /// Requests.
    pub(crate) requests: Requests,
    /// Queries.
    pub(crate) queries: Queries,
    /// What tenants pushed.
    pub(crate) pushes: Pushes,
    /// How old it was.
    pub(crate) lags: Lags,
    /// Lengths of stored lines.
    pub(crate) line_lengths: LineLengths,
    /// Open connections.
    pub(crate) connections: AtomicU64,
    /// Connections closed because there were too many.
    pub(crate) connections_refused: AtomicU64,
    /// Bytes of lines that queries looked at.
    pub(crate) queried_bytes: AtomicU64,
    /// Parts of the stored entries that queries had to leave out.
    pub(crate) unreadable_parts: AtomicU64,
    /// Streams whose labels had to be parsed.
    pub(crate) stream_cache_misses: AtomicU64,
    /// Calls refused because a lane was full.
    pub(crate) lane_full: AtomicU64,
    /// Times that queries and lookups have waited for their turn.
    pub(crate) query_waits: Latencies,
    /// Queries answered by the run of an equal one.
    pub(crate) queries_shared: AtomicU64,
    /// Range queries of which some steps were known.
    pub(crate) result_cache_hits: AtomicU64,
    /// Range queries of which no step was known.
    pub(crate) result_cache_misses: AtomicU64,
    /// Steps that were known.
    pub(crate) result_cache_steps: AtomicU64,
    /// Pushes of which entries were stored, counted before they are acknowledged.
    pub(crate) stored_pushes: AtomicU64,
    /// Queries and lookups refused because too many wait.
    pub(crate) queries_refused: AtomicU64,
    /// Open tails.
    pub(crate) tails: AtomicU64,
    /// Bytes of frames that tails were sent.
    pub(crate) tailed_bytes: AtomicU64,
    /// Entries that tails were told to have missed, for each tail.
    pub(crate) tail_missed: AtomicU64,
}

impl CoreMetrics {
    fn new() -> CoreMetrics {
        let zero = || AtomicU64::new(0);
        CoreMetrics {
            requests: Requests::new(&ROUTES),
            queries: Queries::new(),
            pushes: Pushes::new(),
            lags: Lags::new(),
            line_lengths: LineLengths::default(),
            connections: zero(),
            connections_refused: zero(),
            queried_bytes: zero(),
            unreadable_parts: zero(),
            stream_cache_misses: zero(),
            lane_full: zero(),
            query_waits: Latencies::default(),
            queries_shared: zero(),
            result_cache_hits: zero(),
            result_cache_misses: zero(),
            result_cache_steps: zero(),
            stored_pushes: zero(),
            queries_refused: zero(),
            tails: zero(),
            tailed_bytes: zero(),
            tail_missed: zero(),
        }
    }
}

/// Adds to a counter that only this core writes.
pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// Counters of all cores.
#[derive(Debug)]
pub(crate) struct NodeMetrics {
    cores: Vec<CoreMetrics>,
}

/// What a scrape asks besides the counters.
#[derive(Debug)]
pub(crate) struct Gauges<'a> {
    /// Budgets of the node.
    pub(crate) budgets: &'a [&'a Budget],
    /// Queues of queries.
    pub(crate) queues: &'a [QueueStatus],
    /// Requests waiting in the lane from the scraping core to each shard.
    pub(crate) lane_depths: &'a [usize],
    /// Numbers of each shard.
    pub(crate) shards: &'a [ShardStatus],
    /// Name of the runtime and its driver.
    pub(crate) driver: &'a str,
    /// The files with the limits of tenants, and their hash; `None` if there are none.
    pub(crate) runtime_config: Option<(&'a Reloads, [u8; 32])>,
    /// When the process started, in ns since the Unix epoch.
    pub(crate) started_ns: i64,
    /// Whether segments are merged and expire.
    pub(crate) compacts: bool,
    /// How long the slowest core took to replay its log at the start.
    pub(crate) replay: Duration,
    /// The used part of the file system that holds the log, 0 to 1; `None` if the system
    /// does not tell.
    pub(crate) disk_used: Option<f64>,
}

impl NodeMetrics {
    /// Counters for this many cores, all zero.
    pub(crate) fn new(cores: u16) -> NodeMetrics {
        NodeMetrics { cores: (0..cores).map(|_| CoreMetrics::new()).collect() }
    }

    /// The counters that a core may write.
    pub(crate) fn core(&self, core: CoreId) -> &CoreMetrics {
        &self.cores[core.index()]
    }

    fn sum(&self, counter: impl Fn(&CoreMetrics) -> &AtomicU64) -> u64 {
        self.cores.iter().map(|core| counter(core).load(Ordering::Relaxed)).sum()
    }

    /// Pushes stored since the start. Who was told of a push finds it counted.
    pub(crate) fn stored_pushes(&self) -> u64 {
        self.sum(|core| &core.stored_pushes)
    }

    /// The exposition text.
    pub(crate) fn expose(&self, gauges: &Gauges<'_>, format: ExpositionFormat) -> String {
        let mut out = Exposition::new(format);
        out.family("loki_build_info", "gauge", "The version that runs.");
        let version = env!("CARGO_PKG_VERSION");
        let labels = [
            ("version", version),
            ("revision", version),
            ("branch", "main"),
            ("driver", gauges.driver),
        ];
        out.sample("loki_build_info", &labels, 1.0);
        let panics = crate::logging::panics();
        let help = "Panics that the process has outlived; one of a core ends it.";
        out.single("loki_panic_total", "counter", help, panics);
        requests::expose(self.cores.iter().map(|core| &core.requests), &mut out);
        queries::expose(self.cores.iter().map(|core| &core.queries), &mut out);
        pushes::expose(self.cores.iter().map(|core| &core.pushes), &mut out);
        lags::expose(self.cores.iter().map(|core| &core.lags), &mut out);
        const LENGTHS: &str = "loki_bytes_per_line";
        out.family(LENGTHS, "histogram", "Lengths of pushed lines that passed the limits.");
        let lengths = self.cores.iter().map(|core| core.line_lengths.histogram());
        if let Some(sum) = Histogram::sum(lengths) {
            out.histogram_in(LENGTHS, &[], &sum, 1.0);
        }
        const REPLAY: &str = "loki_ingester_wal_replay_duration_seconds";
        out.family(REPLAY, "gauge", "How long the log was replayed at the start.");
        out.sample(REPLAY, &[], gauges.replay.as_secs_f64());
        const DISK: &str = "loki_ingester_wal_disk_usage_percent";
        out.family(DISK, "gauge", "Used part of the file system with the log, 0 to 1.");
        if let Some(used) = gauges.disk_used {
            out.sample(DISK, &[], used);
        }
        process::expose(gauges.started_ns, &mut out);
        let name = "loki_internal_log_messages_total";
        out.family(name, "counter", "Lines that were logged.");
        for (level, count) in crate::logging::lines() {
            out.sample(name, &[("level", level.word())], count as f64);
        }
        out.single(
            "loki_tcp_connections",
            "gauge",
            "Open connections.",
            self.sum(|c| &c.connections),
        );
        out.single("loki_querier_tail_active", "gauge", "Open tails.", self.sum(|c| &c.tails));
        let counters: [(&str, &str, u64); 12] = [
            (
                "logsvc_connections_refused_total",
                "Connections closed because there were too many.",
                self.sum(|c| &c.connections_refused),
            ),
            (
                "logsvc_query_line_bytes_total",
                "Bytes of lines that queries looked at.",
                self.sum(|c| &c.queried_bytes),
            ),
            (
                "logsvc_query_unreadable_parts_total",
                "Damaged blocks and missing segments that queries had to leave out.",
                self.sum(|c| &c.unreadable_parts),
            ),
            (
                "logsvc_stream_cache_misses_total",
                "Pushed streams whose labels had to be parsed.",
                self.sum(|c| &c.stream_cache_misses),
            ),
            (
                "logsvc_queries_shared_total",
                "Queries answered by the run of an equal one.",
                self.sum(|c| &c.queries_shared),
            ),
            (
                "logsvc_result_cache_hits_total",
                "Metric range queries that took steps from the cache of answers.",
                self.sum(|c| &c.result_cache_hits),
            ),
            (
                "logsvc_result_cache_misses_total",
                "Metric range queries that could have, but of which no step was there.",
                self.sum(|c| &c.result_cache_misses),
            ),
            (
                "logsvc_result_cache_steps_total",
                "Steps that were taken from the cache of answers.",
                self.sum(|c| &c.result_cache_steps),
            ),
            (
                "logsvc_queries_refused_total",
                "Queries and lookups refused because too many wait for their turn.",
                self.sum(|c| &c.queries_refused),
            ),
            (
                "logsvc_lane_full_total",
                "Calls between cores refused because a lane was full.",
                self.sum(|c| &c.lane_full),
            ),
            (
                "loki_querier_tail_bytes_total",
                "Bytes of frames that tails were sent.",
                self.sum(|c| &c.tailed_bytes),
            ),
            (
                "logsvc_tail_missed_entries_total",
                "Entries that clients of tails were told to have missed, counted for each.",
                self.sum(|c| &c.tail_missed),
            ),
        ];
        for (name, help, value) in counters {
            out.single(name, "counter", help, value);
        }
        memory::expose_budgets(&mut out, gauges.budgets);
        self.expose_queues(&mut out, gauges.queues);
        out.family(
            "logsvc_lane_depth",
            "gauge",
            "Requests waiting in the lanes of the scraping core.",
        );
        for (shard, &depth) in gauges.lane_depths.iter().enumerate() {
            out.sample("logsvc_lane_depth", &[("shard", &shard.to_string())], depth as f64);
        }
        expose_shards(&mut out, gauges.shards);
        memory::expose_caches(&mut out, gauges.shards);
        if let Some((reloads, sha256)) = gauges.runtime_config {
            expose_runtime_config(&mut out, reloads, sha256);
        }
        expose_compactor(&mut out, gauges);
        out.into_text()
    }

    fn expose_queues(&self, out: &mut Exposition, queues: &[QueueStatus]) {
        type Read = fn(&QueueStatus) -> usize;
        let families: [(&str, &str, Read); 3] = [
            ("logsvc_query_places", "How many queries or lookups may run.", |q| q.places),
            ("logsvc_queries_running", "How many do.", |q| q.running),
            ("logsvc_queries_waiting", "How many wait for their turn.", |q| {
                q.waiting.iter().map(|(_, count)| count).sum()
            }),
        ];
        for (name, help, read) in families {
            out.family(name, "gauge", help);
            for queue in queues {
                out.sample(name, &[("work", queue.work)], read(queue) as f64);
            }
        }
        const LENGTH: &str = "loki_query_scheduler_queue_length";
        out.family(LENGTH, "gauge", "Queries and lookups that wait for their turn.");
        let mut by_user = std::collections::BTreeMap::new();
        for (user, count) in queues.iter().flat_map(|queue| &queue.waiting) {
            *by_user.entry(user.as_str()).or_insert(0) += count;
        }
        for (user, count) in by_user {
            out.sample(LENGTH, &[("user", user)], count as f64);
        }
        const WAITS: &str = "loki_query_scheduler_queue_duration_seconds";
        out.family(WAITS, "histogram", "How long queries and lookups have waited for their turn.");
        let waits = self.cores.iter().map(|core| core.query_waits.histogram());
        if let Some(sum) = Histogram::sum(waits) {
            out.histogram(WAITS, &[], &sum);
        }
    }
}

fn expose_runtime_config(out: &mut Exposition, reloads: &Reloads, sha256: [u8; 32]) {
    const CONFIG: (&str, &str) = ("config", "loki");
    const GOOD: &str = "loki_runtime_config_last_reload_successful";
    out.family(GOOD, "gauge", "Whether the files with the limits of tenants are good.");
    out.sample(GOOD, &[CONFIG], f64::from(u8::from(reloads.is_good())));
    const HASH: &str = "loki_runtime_config_hash";
    out.family(HASH, "gauge", "The hash of the files that the limits of tenants come from.");
    let hash: String = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
    out.sample(HASH, &[("sha256", &hash), CONFIG], 1.0);
    out.single(
        "logsvc_runtime_config_changes_total",
        "counter",
        "Times that files have changed the limits of tenants since the start.",
        reloads.changes(),
    );
    out.single(
        "logsvc_runtime_config_failures_total",
        "counter",
        "Times that files with the limits of tenants were read and could not be used.",
        reloads.failures(),
    );
    const CHANGED: &str = "logsvc_runtime_config_changed_timestamp_seconds";
    out.family(CHANGED, "gauge", "When files last changed the limits of tenants.");
    out.sample(CHANGED, &[], reloads.changed_ns() as f64 / 1e9);
}
