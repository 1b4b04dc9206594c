//! A node among others: joins the cluster, and tells its cores what they may do.
//!
//! Core 0 runs the [`MemberDriver`]. All cores see where entries go ([`OneOfMany::routes`]). Whether a
//! query may be answered is asked on core 0, by message ([`MemberRequest`]).
//!
//! Guarantee: the server does nothing else with the cluster's rules; `docs/design/cluster.md` has them.
//!
//! Failures: a node that was taken over ends with a text that says so, and has to be started again.

mod encryption;
mod gate;
mod hints;
mod join;
mod membership;
mod wires;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use logsvc_cluster::member::Answer;
use logsvc_membership::membership::Membership;
use logsvc_peers::client::Traffic;
use logsvc_runtime::mesh::{Mesh, MeshOptions};
use logsvc_runtime::{Latch, Published};
use logsvc_shards::common::CommonView;
use logsvc_shards::member::Routes;
use logsvc_shards::sink::SinkStatus;

use crate::metrics::ClusterNumbers;
pub(crate) use encryption::Encryption;
pub(crate) use join::{MemberTask, join};

/// Requests that wait in front of the member.
const LANE_MESSAGES: usize = 4096;

/// What a core asks of the member.
#[derive(Clone, Copy, Debug)]
pub(crate) enum MemberRequest {
    /// May a query be answered by the map of this number? Waits for a proof, and for the map, for a
    /// moment.
    MayAnswer { number: u64 },
    /// May it still be answered, at this very instant?
    StillMay { number: u64 },
    /// Somebody knows the map of this number.
    Heard { number: u64 },
    /// Somebody knows the entry of this number of the log of common files.
    HeardCommon { number: u64 },
}

/// The lanes from all cores to the member on core 0.
pub(crate) type MemberMesh = Mesh<MemberRequest, Answer>;

/// Such lanes for so many cores.
pub(crate) fn mesh(cores: u16) -> MemberMesh {
    let options =
        MeshOptions { request_lane_messages: LANE_MESSAGES, inflight_per_core: LANE_MESSAGES };
    Mesh::new(cores, options)
}

/// What all cores of a node among others share.
#[derive(Debug)]
pub(crate) struct OneOfMany {
    routes: OnceLock<Published<Routes>>,
    membership: OnceLock<Membership>,
    /// The files that all nodes have in common, as this node knows them.
    pub(crate) common: Published<CommonView>,
    /// Messages to other nodes.
    pub(crate) traffic: Arc<Traffic>,
    /// The log of the node in the bucket.
    pub(crate) sink: Option<Arc<SinkStatus>>,
    /// Ends the listeners for other nodes.
    pub(crate) peers_stop: Latch,
    /// Triggered when the node has ended without having left, as when it was taken over. It can do nothing
    /// for clients any more, so none of them is to wait.
    pub(crate) ended: Latch,
    /// TLS of what the node tells others.
    pub(crate) encryption: Encryption,
    peer_address: OnceLock<SocketAddr>,
    numbers: AtomicU64,
    is_leaving: AtomicBool,
}

impl OneOfMany {
    /// A node that has not joined yet.
    pub(crate) fn new(sink: Option<Arc<SinkStatus>>) -> OneOfMany {
        OneOfMany {
            routes: OnceLock::new(),
            membership: OnceLock::new(),
            common: Published::default(),
            traffic: Arc::default(),
            sink,
            peers_stop: Latch::new(),
            ended: Latch::new(),
            encryption: Encryption::default(),
            peer_address: OnceLock::new(),
            numbers: AtomicU64::new(0),
            is_leaving: AtomicBool::new(false),
        }
    }

    /// Whether the node gives everything to others, and stops.
    pub(crate) fn is_leaving(&self) -> bool {
        self.is_leaving.load(Ordering::Acquire)
    }

    fn note_leaving(&self) {
        self.is_leaving.store(true, Ordering::Release);
    }

    /// Numbers for metrics.
    pub(crate) fn numbers(&self) -> ClusterNumbers {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let sent = ClusterNumbers {
            messages: of(&self.traffic.messages),
            failures: of(&self.traffic.failures),
            sent_bytes: of(&self.traffic.sent_bytes),
            received_bytes: of(&self.traffic.received_bytes),
            ..ClusterNumbers::default()
        };
        let Some(routes) = self.routes().map(|routes| routes.get()) else { return sent };
        let owned = routes.map.slots.iter().filter(|slot| slot.owner == Some(routes.me));
        ClusterNumbers {
            map_number: routes.number,
            partitions: owned.count() as u64,
            nodes: routes.map.members.len() as u64,
            ..sent
        }
    }

    /// Another number than all before.
    pub(crate) fn next_number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::AcqRel)
    }

    /// Where entries go; `None` before the node has joined.
    pub(crate) fn routes(&self) -> Option<&Published<Routes>> {
        self.routes.get()
    }

    /// Who else shares the bucket; `None` before the node has joined.
    pub(crate) fn membership(&self) -> Option<&Membership> {
        self.membership.get()
    }

    fn set_membership(&self, membership: Membership) {
        self.membership.get_or_init(|| membership);
    }

    fn set_routes(&self, routes: Published<Routes>) {
        self.routes.get_or_init(|| routes);
    }

    /// Where all cores listen for other nodes: `local`, unless another core was faster.
    pub(crate) fn choose_peer_address(&self, local: SocketAddr) -> SocketAddr {
        *self.peer_address.get_or_init(|| local)
    }

    /// Where the node listens for other nodes, once it does.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        self.peer_address.get().copied()
    }
}
