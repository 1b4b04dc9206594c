//! State that all cores of a node share, below the rooms of the front.
//!
//! One value is made before the cores start and lives until the last of them has ended. Only
//! atomics, latches, and cells that are set once change in it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use logsvc_http::ConnectionLimit;
use logsvc_runtime::{Budget, Latch};
use logsvc_shards::changes::NodeChanges;
use logsvc_shards::deletion::NodeDeletions;

use crate::config::{Config, LimitsOfTenants, TenantLimits, TlsAcceptor};
use crate::metrics::{NodeMetrics, Reloads};
use crate::refusals::Refusals;
use crate::services::Services;

/// Where all cores wait for each other.
#[derive(Debug)]
pub(crate) struct Barrier {
    missing: AtomicU16,
    complete: Latch,
}

impl Barrier {
    /// A barrier that this many cores pass together.
    pub(crate) fn new(cores: u16) -> Barrier {
        Barrier { missing: AtomicU16::new(cores), complete: Latch::new() }
    }

    /// Tells that this core has come so far. Each core says so once.
    pub(crate) fn arrive(&self) {
        if self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.complete.trigger();
        }
    }

    /// Waits until all cores have come so far.
    pub(crate) async fn wait(&self) {
        self.complete.wait().await;
    }

    /// Whether all cores have come so far.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete.is_triggered()
    }
}

/// The memory of the node, by its use. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Budgets {
    /// Request bodies.
    pub(crate) bodies: Budget,
    /// Handshakes of TLS.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there are none"))]
    pub(crate) handshakes: Budget,
    /// Entries that are not in segments.
    pub(crate) heads: Budget,
    /// Streams, besides their entries.
    pub(crate) streams: Budget,
    /// Decoded blocks of segments.
    pub(crate) cache: Budget,
    /// Directories of segments.
    pub(crate) directories: Budget,
    /// Intermediate results of queries.
    pub(crate) queries: Budget,
    /// Queries of rules.
    pub(crate) rules: Budget,
    /// Answers that are kept, to be used again.
    pub(crate) results: Budget,
    /// Parts of the windows of rules that are kept.
    pub(crate) windows: Budget,
    /// Entries on their way to tails.
    pub(crate) tails: Budget,
}

/// The queries of rules get so many bytes, unless that is more than a quarter of the memory for
/// queries: blocks of two megabytes are worked on at a time.
const RULES_MEMORY_MIN: u64 = 8 << 20;

impl Budgets {
    fn new(config: &Config) -> Budgets {
        // Rules have memory that no other query can take.
        let rules_bytes = (config.query_budget_bytes / 8)
            .max(RULES_MEMORY_MIN)
            .min(config.query_budget_bytes / 4);
        let windows_bytes = config.result_budget_bytes / 4;
        Budgets {
            bodies: Budget::with_owners("bodies", config.body_budget_bytes),
            handshakes: Budget::new("handshakes", config.body_budget_bytes / 32),
            heads: Budget::new("heads", config.heads_budget_bytes),
            streams: Budget::new("streams", config.stream_budget_bytes),
            cache: Budget::new("cache", config.cache_budget_bytes),
            directories: Budget::new("directories", config.directory_budget_bytes),
            queries: Budget::new("queries", config.query_budget_bytes - rules_bytes),
            rules: Budget::new("rules", rules_bytes),
            results: Budget::new("results", config.result_budget_bytes - windows_bytes),
            windows: Budget::new("windows", windows_bytes),
            tails: Budget::new("tails", config.tail_budget_bytes),
        }
    }
}

/// Bytes of the lists of refusals, so that they are a small part of the memory.
fn refusals_max_bytes(memory_max_bytes: u64) -> usize {
    (memory_max_bytes / 256).clamp(256 << 10, 4 << 20) as usize
}

/// See the module.
pub(crate) struct NodeState {
    /// Settings.
    pub(crate) config: Arc<Config>,
    /// Limits of tenants.
    pub(crate) limits: Arc<TenantLimits>,
    /// Certificates and keys of TLS; `None` if connections are plain.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there is none"))]
    pub(crate) tls: Option<TlsAcceptor>,
    /// How many connections may be open.
    pub(crate) connections: ConnectionLimit,
    /// Ends the node when triggered.
    pub(crate) stop: Latch,
    /// Memory.
    pub(crate) budgets: Budgets,
    /// Counters of all cores.
    pub(crate) metrics: NodeMetrics,
    /// What was refused lately.
    pub(crate) refusals: Refusals,
    /// Outcomes of reading the files with the limits of tenants again.
    pub(crate) reloads: Reloads,
    /// The states of the parts of the node.
    pub(crate) services: Services,
    /// Changes of the shards, for the cache of answers.
    pub(crate) changes: NodeChanges,
    /// The version of the requests for deletion that is in force.
    pub(crate) deletions: NodeDeletions,
    /// Passed when every shard has replayed its log.
    pub(crate) recovered: Barrier,
    /// How long the slowest of them took, in us.
    pub(crate) replay_us: AtomicU64,
    /// Whether stopping writes memory to segments, whatever the settings say.
    pub(crate) prepared: AtomicBool,
    address: OnceLock<SocketAddr>,
    failure: OnceLock<String>,
}

impl NodeState {
    /// The state of a node that has not started. `metrics` has counters for each core.
    pub(crate) fn new(
        config: Arc<Config>,
        limits: LimitsOfTenants,
        tls: Option<TlsAcceptor>,
        connections: ConnectionLimit,
        stop: Latch,
        metrics: NodeMetrics,
    ) -> NodeState {
        let cores = config.cores;
        NodeState {
            limits: Arc::new(TenantLimits::new(limits)),
            budgets: Budgets::new(&config),
            metrics,
            refusals: Refusals::new(refusals_max_bytes(config.memory_max_bytes)),
            reloads: Reloads::default(),
            services: Services::new(cores),
            changes: NodeChanges::new(cores),
            deletions: NodeDeletions::default(),
            recovered: Barrier::new(cores),
            replay_us: AtomicU64::new(0),
            prepared: AtomicBool::new(false),
            address: OnceLock::new(),
            failure: OnceLock::new(),
            config,
            tls,
            connections,
            stop,
        }
    }

    /// Why the node did not come up or did not end well, if so.
    pub(crate) fn failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }

    /// Where the node listens, once it does. Port 0 has been replaced by the real
    /// one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address.get().copied()
    }

    /// Where all cores listen: `local`, unless another core was faster.
    pub(crate) fn choose_address(&self, local: SocketAddr) -> SocketAddr {
        *self.address.get_or_init(|| local)
    }

    /// Keeps the first failure and ends the node.
    pub(crate) fn fail(&self, text: String) {
        tracing::error!("{text}");
        // Only the first failure matters; later ones follow from it.
        let _ = self.failure.set(text);
        self.stop.trigger();
    }
}
