//! Counters of the front cores, and the text that `/metrics` answers.
//!
//! Every core writes to its own slot only, with relaxed atomics, so counting
//! costs no cache line that another core writes; a scrape adds the slots up.

mod bucket;
mod cluster;
mod compactor;
mod deletions;
mod disk;
mod exposition;
mod histogram;
mod lags;
mod memory;
mod numbers;
mod process;
mod pushes;
mod queries;
mod queues;
mod reloads;
mod requests;
mod ruler;
mod shards;
mod streams;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use logsvc_rules::messages::RulerNumbers;
use logsvc_runtime::{Budget, CoreId, DiskSpace};
use logsvc_shards::deletion::DeletionStatus;
use logsvc_shards::follower::BucketNumbers;
use logsvc_shards::messages::ShardStatus;

use crate::config::Choice;
pub(crate) use cluster::ClusterNumbers;
pub(crate) use compactor::Upkeep;
use exposition::Exposition;
pub(crate) use exposition::ExpositionFormat;
use histogram::{Histogram, Latencies};
pub(crate) use histogram::{LineCounts, LineLengths};
use lags::Lags;
pub(crate) use lags::PushFormat;
pub(crate) use numbers::Metric;
use numbers::Numbers;
pub(crate) use pushes::{Amount, Mutation, OTHERS as OTHER_TENANTS, Pushes, Reason, RequestReason};
use queries::Queries;
pub(crate) use queries::QueryKind;
pub(crate) use queues::QueueStatus;
pub(crate) use reloads::Reloads;
use requests::Requests;
pub(crate) use ruler::GroupLabels;
use shards::expose_shards;

/// Counters of one core.
#[derive(Debug)]
pub(crate) struct CoreMetrics {
    /// Requests.
    pub(crate) requests: Requests,
    /// Queries.
    pub(crate) queries: Queries,
    /// Pushed entries of tenants.
    pub(crate) pushes: Pushes,
    /// Ages of pushes.
    pub(crate) lags: Lags,
    /// Lengths of stored lines.
    pub(crate) line_lengths: LineLengths,
    /// Times that queries and lookups have waited for their turn.
    pub(crate) query_waits: Latencies,
    /// Pushes of which entries were stored, counted before they are acknowledged.
    pub(crate) stored_pushes: AtomicU64,
    /// Metrics that are one number.
    pub(crate) numbers: Numbers,
    /// Requests to the bucket.
    pub(crate) asked_of_bucket: Arc<logsvc_store::Counters>,
}

impl CoreMetrics {
    fn new(routes: &'static [&'static str]) -> CoreMetrics {
        CoreMetrics {
            requests: Requests::new(routes),
            queries: Queries::new(),
            pushes: Pushes::new(),
            lags: Lags::new(),
            line_lengths: LineLengths::default(),
            query_waits: Latencies::default(),
            stored_pushes: AtomicU64::new(0),
            numbers: Numbers::new(),
            asked_of_bucket: Arc::default(),
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

/// Values of a scrape besides the counters.
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
    /// Numbers of the requests for deletion; `None` if their keeper does not run.
    pub(crate) deletions: Option<&'a DeletionStatus>,
    /// Numbers of the ruler; `None` if it does not run.
    pub(crate) ruler: Option<&'a RulerNumbers>,
    /// How rule groups are named.
    pub(crate) group_labels: GroupLabels<'a>,
    /// The time of the scrape, in ns since the Unix epoch.
    pub(crate) now_ns: i64,
    /// Name of the runtime and its driver.
    pub(crate) driver: &'a str,
    /// The files with the limits of tenants, and their hash; `None` if there are none.
    pub(crate) files_sha256: Option<[u8; 32]>,
    /// Outcomes of reading files again.
    pub(crate) reloads: &'a Reloads,
    /// When the process started, in ns since the Unix epoch.
    pub(crate) started_ns: i64,
    /// What cores do with segments.
    pub(crate) upkeep: Upkeep,
    /// By shard: parts of pushes that it could not write to its log.
    pub(crate) append_failures: &'a [u64],
    /// How long the slowest core took to replay its log at the start.
    pub(crate) replay: Duration,
    /// How many bytes of the log have been replayed, and of how many.
    pub(crate) replay_bytes: (u64, u64),
    /// The file system that holds the data; `None` if the system does not tell.
    pub(crate) disk: Option<DiskSpace>,
    /// Numbers of the bucket; `None` if there is none.
    pub(crate) bucket: Option<BucketNumbers>,
    /// Numbers of the node among others; `None` if there are none.
    pub(crate) cluster: Option<ClusterNumbers>,
    /// Whether pushes and queries are taken.
    pub(crate) is_ready: bool,
}

impl NodeMetrics {
    /// Counters for this many cores, all zero. Requests are counted under the names in
    /// `routes`.
    pub(crate) fn new(cores: u16, routes: &'static [&'static str]) -> NodeMetrics {
        NodeMetrics { cores: (0..cores).map(|_| CoreMetrics::new(routes)).collect() }
    }

    /// The counters that a core may write.
    pub(crate) fn core(&self, core: CoreId) -> &CoreMetrics {
        &self.cores[core.index()]
    }

    /// Pushes stored since the start. A push is counted before its client gets the answer.
    pub(crate) fn stored_pushes(&self) -> u64 {
        self.cores.iter().map(|core| core.stored_pushes.load(Ordering::Relaxed)).sum()
    }

    /// The part of the exposition text that is about pushes.
    #[cfg(test)]
    pub(crate) fn pushes_text(&self) -> String {
        let mut out = Exposition::new(ExpositionFormat::Text);
        pushes::expose(self.cores.iter().map(|core| &core.pushes), &mut out);
        out.into_text()
    }

    /// The exposition text.
    pub(crate) fn expose(&self, gauges: &Gauges<'_>, format: ExpositionFormat) -> String {
        let mut out = Exposition::new(format);
        out.family("loki_build_info", "gauge", "The version that runs.");
        let version = env!("CARGO_PKG_VERSION");
        let labels = [
            ("version", version),
            ("revision", crate::version::COMMIT),
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
        let (done, total) = gauges.replay_bytes;
        let help = "Bytes of the log that are to be replayed at the start.";
        out.single("logsvc_replay_total_bytes", "gauge", help, total);
        let help = "Bytes of the log that have been replayed at the start.";
        out.single("logsvc_replay_done_bytes", "gauge", help, done);
        let help = "Whether pushes and queries are taken, as /ready says it.";
        out.single("logsvc_ready", "gauge", help, u64::from(gauges.is_ready));
        disk::expose(gauges.disk, &mut out);
        let asked = self.cores.iter().map(|core| &*core.asked_of_bucket);
        bucket::expose(gauges.bucket, asked, gauges.shards, &mut out);
        cluster::expose(gauges.cluster, &mut out);
        process::expose(gauges.started_ns, &mut out);
        let name = "loki_internal_log_messages_total";
        out.family(name, "counter", "Lines that were logged.");
        for (level, count) in crate::logging::lines() {
            out.sample(name, &[("level", level.word())], count as f64);
        }
        numbers::expose(self.cores.iter().map(|core| &core.numbers), &mut out);
        memory::expose_budgets(&mut out, gauges.budgets);
        queues::expose(gauges.queues, self.cores.iter().map(|core| &core.query_waits), &mut out);
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
        reloads::expose_asked(gauges.reloads, &mut out);
        if let Some(sha256) = gauges.files_sha256 {
            reloads::expose(gauges.reloads, sha256, &mut out);
        }
        compactor::expose(&mut out, gauges);
        deletions::expose(gauges.deletions, gauges.now_ns, &mut out);
        ruler::expose(gauges.ruler, gauges.group_labels, &mut out);
        out.into_text()
    }
}
