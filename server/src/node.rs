//! State that all cores of a node share, below the rooms of the front.
//!
//! One value is made before the cores start and lives until the last of them has ended. Only
//! atomics, latches, and cells that are set once change in it.

use std::net::SocketAddr;
#[expect(
    clippy::disallowed_types,
    reason = "held for the copy of one pointer, after a change"
)]
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError};

use logsvc_http::ConnectionLimit;
use logsvc_runtime::{Bell, Budget, Latch, ServiceManager};
use logsvc_shards::changes::NodeChanges;
use logsvc_shards::deletion::NodeDeletions;
use logsvc_shards::follower::BucketStatus;
use logsvc_shards::types::Layout;
use logsvc_shards::wal::progress::ReplayProgress;

use crate::cluster::OneOfMany;
use crate::config::{Config, LimitsOfTenants, Origin, TenantLimits, TlsAcceptor};
use crate::intake::IntakeHealth;
use crate::metrics::{NodeMetrics, Reloads};
use crate::refusals::Refusals;
use crate::services::Services;
use crate::users::Users;

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
    /// Segments on their way into the bucket.
    pub(crate) uploads: Budget,
}

/// The queries of rules get so many bytes, unless that is more than a quarter of the memory for
/// queries: blocks of two megabytes are worked on at a time.
const RULES_MEMORY_MIN: u64 = 8 << 20;

/// The shortest part of a long segment: stores refuse less.
pub(crate) const PART_MIN_BYTES: u64 = 5 << 20;
/// The longest one.
pub(crate) const PART_MAX_BYTES: u64 = 16 << 20;

/// Memory for what is on its way into the bucket: two parts at least. Decoded blocks give it.
fn upload_memory_bytes(config: &Config) -> u64 {
    if config.bucket.is_none() {
        return 0;
    }
    (config.memory_max_bytes / 16).clamp(2 * PART_MIN_BYTES, 4 * PART_MAX_BYTES)
}

impl Budgets {
    fn new(config: &Config) -> Budgets {
        // Rules have memory that no other query can take.
        let rules_bytes = (config.query_budget_bytes / 8)
            .max(RULES_MEMORY_MIN)
            .min(config.query_budget_bytes / 4);
        let windows_bytes = config.result_budget_bytes / 4;
        let uploads_bytes = upload_memory_bytes(config);
        Budgets {
            bodies: Budget::with_owners("bodies", config.body_budget_bytes),
            handshakes: Budget::new("handshakes", config.body_budget_bytes / 32),
            heads: Budget::new("heads", config.heads_budget_bytes),
            streams: Budget::new("streams", config.stream_budget_bytes),
            cache: Budget::new("cache", config.cache_budget_bytes.saturating_sub(uploads_bytes)),
            directories: Budget::new("directories", config.directory_budget_bytes),
            queries: Budget::new("queries", config.query_budget_bytes - rules_bytes),
            rules: Budget::new("rules", rules_bytes),
            results: Budget::new("results", config.result_budget_bytes - windows_bytes),
            windows: Budget::new("windows", windows_bytes),
            tails: Budget::new("tails", config.tail_budget_bytes),
            uploads: Budget::new("uploads", uploads_bytes),
        }
    }
}

/// Where the process runs, and what it was started with. Empty in simulations.
#[derive(Debug, Default)]
pub(crate) struct Surroundings {
    /// The files and flags of the settings.
    pub(crate) origin: Origin,
    /// Rung when the files shall be read again.
    pub(crate) reload: ReloadRequests,
    /// Who hears how the process does.
    pub(crate) manager: ServiceManager,
    /// Where the listener listens that the service manager has opened.
    pub(crate) inherited: Option<SocketAddr>,
    /// The user that the process runs as.
    pub(crate) user: String,
}

/// Wishes to have the files read again. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ReloadRequests {
    /// Rung for each wish.
    pub(crate) bell: Bell,
    sender: flume::Sender<flume::Sender<Result<(), String>>>,
    waiting: flume::Receiver<flume::Sender<Result<(), String>>>,
}

/// Clients that may wait for one reading.
const RELOADS_WAITING: usize = 16;

impl Default for ReloadRequests {
    fn default() -> ReloadRequests {
        let (sender, waiting) = flume::bounded(RELOADS_WAITING);
        ReloadRequests { bell: Bell::new(), sender, waiting }
    }
}

impl ReloadRequests {
    /// Asks for a reading that begins after this call, and waits for its outcome.
    ///
    /// # Errors
    /// What is wrong with the files, or that too many wait.
    pub(crate) async fn ask(&self) -> Result<(), String> {
        let (sender, outcome) = flume::bounded(1);
        if self.sender.try_send(sender).is_err() {
            return Err("too many requests wait for the files to be read".to_owned());
        }
        self.bell.ring();
        outcome.recv_async().await.unwrap_or_else(|_| Err("the server is stopping".to_owned()))
    }

    /// Those whose wish the next reading fulfils.
    pub(crate) fn take(&self) -> Vec<flume::Sender<Result<(), String>>> {
        self.waiting.drain().collect()
    }
}

/// The certificates of the listeners, which may be replaced while the node runs. Connections to a
/// listener without are plain.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there are none"))]
pub(crate) struct Certificates {
    clients: Option<TlsAcceptor>,
    peers: Option<TlsAcceptor>,
    gossip: Option<TlsAcceptor>,
}

impl Certificates {
    /// Reads the files of all listeners.
    ///
    /// # Errors
    /// A file cannot be used. The text names it.
    pub(crate) fn load(config: &Config) -> Result<Certificates, String> {
        let clients = config.tls.load("http")?;
        let Some(cluster) = &config.cluster else {
            return Ok(Certificates { clients, ..Certificates::default() });
        };
        let peers = cluster.tls.listener.load("grpc")?;
        let gossip = cluster.tls.gossip_listener().load("memberlist")?;
        Ok(Certificates { clients, peers, gossip })
    }

    /// Those of the HTTP interface.
    #[cfg(feature = "tls")]
    pub(crate) fn of_clients(&self) -> Option<&TlsAcceptor> {
        self.clients.as_ref()
    }

    /// Those of the listener for other nodes.
    #[cfg(feature = "tls")]
    pub(crate) fn of_peers(&self) -> Option<&TlsAcceptor> {
        self.peers.as_ref()
    }

    /// Those of gossip.
    #[cfg(feature = "tls")]
    pub(crate) fn of_gossip(&self) -> Option<&TlsAcceptor> {
        self.gossip.as_ref()
    }

    /// New connections get other certificates.
    #[cfg(feature = "tls")]
    pub(crate) fn replace(&self, with: &Certificates) {
        let all = [
            (&self.clients, &with.clients),
            (&self.peers, &with.peers),
            (&self.gossip, &with.gossip),
        ];
        for (acceptor, newer) in all {
            if let (Some(acceptor), Some(newer)) = (acceptor, newer) {
                acceptor.replace(newer);
            }
        }
    }
}

/// The accounts of clients, which may be replaced while the node runs.
#[derive(Debug)]
pub(crate) struct SharedUsers {
    #[expect(clippy::disallowed_types, reason = "held for a copy of a pointer")]
    current: Mutex<Option<Arc<Users>>>,
    /// Grows with each change; 0 where nobody is asked.
    version: AtomicU64,
}

impl SharedUsers {
    #[expect(clippy::disallowed_types, reason = "as above")]
    fn new(users: Option<Users>) -> SharedUsers {
        let version = AtomicU64::new(u64::from(users.is_some()));
        SharedUsers { current: Mutex::new(users.map(Arc::new)), version }
    }

    /// The version in force; 0 where nobody is asked.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// The accounts in force; `None` where nobody is asked.
    pub(crate) fn current(&self) -> Option<Arc<Users>> {
        // Nothing can panic while it is held.
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts other accounts in force. Whether clients are asked at all does not change.
    pub(crate) fn replace(&self, users: Users) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.is_some() {
            *current = Some(Arc::new(users));
            self.version.fetch_add(1, Ordering::Release);
        }
    }
}

/// Bytes of the lists of refusals, so that they are a small part of the memory.
fn refusals_max_bytes(memory_max_bytes: u64) -> usize {
    (memory_max_bytes / 256).clamp(256 << 10, 4 << 20) as usize
}

/// The replay of the logs at the start.
#[derive(Debug, Default)]
pub(crate) struct Replay {
    /// How far it is, once the data folder has been looked at.
    pub(crate) progress: OnceLock<Arc<ReplayProgress>>,
    /// Which core owns which streams, once the data folder has been looked at.
    pub(crate) layout: OnceLock<Layout>,
    /// How long the slowest shard took, in us.
    pub(crate) slowest_us: AtomicU64,
}

impl Replay {
    /// How much of the logs has been replayed, 0 to 100.
    pub(crate) fn percent(&self) -> u64 {
        self.progress.get().map_or(0, |progress| progress.percent())
    }
}

/// What connections and requests meet first. Certificates and accounts may change.
#[derive(Debug)]
pub(crate) struct Entrance {
    /// Certificates and keys of TLS.
    #[cfg_attr(not(feature = "tls"), expect(dead_code, reason = "there are none"))]
    pub(crate) tls: Certificates,
    /// Who may use the HTTP interface.
    pub(crate) users: SharedUsers,
    /// How many connections may be open.
    pub(crate) connections: ConnectionLimit,
}

/// An [`Entrance`] as it is at the start.
pub(crate) struct Doors {
    /// Certificates and keys.
    pub(crate) tls: Certificates,
    /// Accounts; nobody is asked without.
    pub(crate) users: Option<Users>,
    /// How many connections may be open.
    pub(crate) connections: ConnectionLimit,
}

/// What operators have asked for.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    /// Whether stopping writes memory to segments, whatever the settings say.
    pub(crate) is_prepared: AtomicBool,
    /// Whether a backup is being made or removed.
    pub(crate) is_backing_up: AtomicBool,
}

/// What the start and the run have come to.
#[derive(Debug, Default)]
struct Course {
    /// Where the node listens, once it does.
    address: OnceLock<SocketAddr>,
    /// Why the node did not come up or did not end well.
    failure: OnceLock<String>,
}

/// See the module.
pub(crate) struct NodeState {
    /// Settings.
    pub(crate) config: Arc<Config>,
    /// Limits of tenants.
    pub(crate) limits: Arc<TenantLimits>,
    /// What connections and requests meet first.
    pub(crate) entrance: Entrance,
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
    /// How the replay goes.
    pub(crate) replay: Replay,
    /// What operators have asked for.
    pub(crate) asked: Asked,
    /// Whether pushes can be stored.
    pub(crate) intake: IntakeHealth,
    /// When each core last had its turn, in ms of its clock.
    pub(crate) beats: Box<[AtomicU64]>,
    /// How the node and its bucket stand; says nothing without one.
    pub(crate) bucket: Arc<BucketStatus>,
    /// What its cores share as one of many; `None` if it has no others.
    pub(crate) cluster: Option<Arc<OneOfMany>>,
    /// Where the process runs, and what it was started with.
    pub(crate) surroundings: Surroundings,
    course: Course,
}

impl NodeState {
    /// The state of a node that has not started. `metrics` has counters for each core.
    pub(crate) fn new(
        config: Arc<Config>,
        limits: LimitsOfTenants,
        Doors { tls, users, connections }: Doors,
        stop: Latch,
        metrics: NodeMetrics,
        cluster: Option<Arc<OneOfMany>>,
        surroundings: Surroundings,
    ) -> NodeState {
        let cores = config.cores;
        NodeState {
            limits: Arc::new(TenantLimits::new(limits)),
            budgets: Budgets::new(&config),
            metrics,
            refusals: Refusals::new(refusals_max_bytes(config.memory_max_bytes)),
            reloads: Reloads::default(),
            services: Services::new(cores, config.cluster.as_ref().map(|it| it.parts)),
            changes: NodeChanges::new(cores),
            deletions: NodeDeletions::default(),
            recovered: Barrier::new(cores),
            replay: Replay::default(),
            asked: Asked::default(),
            intake: IntakeHealth::new(cores),
            beats: (0..cores).map(|_| AtomicU64::new(0)).collect(),
            bucket: Arc::default(),
            cluster,
            surroundings,
            course: Course::default(),
            config,
            entrance: Entrance { tls, users: SharedUsers::new(users), connections },
            stop,
        }
    }

    /// Why the node did not come up or did not end well, if so.
    pub(crate) fn failure(&self) -> Option<String> {
        self.course.failure.get().cloned()
    }

    /// Where the node listens, once it does. Port 0 has been replaced by the real
    /// one.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.course.address.get().copied()
    }

    /// Where all cores listen: `local`, unless another core was faster.
    pub(crate) fn choose_address(&self, local: SocketAddr) -> SocketAddr {
        *self.course.address.get_or_init(|| local)
    }

    /// Keeps the first failure and ends the node.
    pub(crate) fn fail(&self, text: String) {
        // Only the first failure matters; later ones follow from it. All cores may meet the same one.
        let is_later = self.course.failure.set(text.clone()).is_err();
        if !is_later || self.course.failure.get() != Some(&text) {
            tracing::error!("{text}");
        }
        self.stop.trigger();
    }
}
