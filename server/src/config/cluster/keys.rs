//! The keys as they are written, and which of them do nothing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use logsvc_membership::settings::Settings;

use super::super::choice::Choice;
use super::encryption::ClusterTls;
use super::etcd::EtcdKeys;
use super::{ONE_NODE, Said};

/// The port for other nodes, as in Loki.
const PEER_PORT: u16 = 9095;

/// How many copies of an entry Loki keeps.
const REPLICATION_FACTOR: usize = 3;

/// Where nodes learn of each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum RingStore {
    /// Nobody has said; `memberlist.join_members` decides.
    #[default]
    Unsaid,
    /// There is one node.
    InMemory,
    /// By gossip.
    Memberlist,
    /// By keys in etcd.
    Etcd,
}

impl Choice for RingStore {
    fn words(&self) -> &'static str {
        "inmemory|memberlist|etcd"
    }

    fn word(&self) -> &'static str {
        match self {
            RingStore::Unsaid => "",
            RingStore::InMemory => "inmemory",
            RingStore::Memberlist => "memberlist",
            RingStore::Etcd => "etcd",
        }
    }

    fn choose(&mut self, word: &str) -> bool {
        *self = match word {
            "" => RingStore::Unsaid,
            "inmemory" => RingStore::InMemory,
            "memberlist" => RingStore::Memberlist,
            "etcd" => RingStore::Etcd,
            _ => return false,
        };
        true
    }

    fn fault(&self, word: &str) -> String {
        match word {
            "consul" | "multi" => format!(
                "{word} is not supported: nodes find each other by gossip (memberlist) or by etcd, \
                 and the bucket decides what only one of them may do"
            ),
            word => format!("{word:?} is none of inmemory, memberlist and etcd"),
        }
    }
}

/// Settings of the cluster as they are written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClusterSettings {
    /// `common.ring.kvstore.store`.
    pub(crate) common_store: RingStore,
    /// `ingester.lifecycler.ring.kvstore.store`, which wins.
    pub(crate) ingester_store: RingStore,
    /// `common.ring.instance_id`; empty: `node_name`, or else the name of the machine.
    pub(crate) instance_id: String,
    /// `common.ring.instance_addr`; it wins over `common.instance_addr`.
    pub(crate) ring_instance_addr: String,
    /// `common.instance_addr`.
    pub(crate) instance_addr: String,
    /// `common.ring.instance_interface_names`; they win over the others.
    pub(crate) ring_interface_names: Vec<String>,
    /// `common.instance_interface_names`.
    pub(crate) interface_names: Vec<String>,
    /// `common.ring.instance_availability_zone`; it wins over the ingester's.
    pub(crate) ring_zone: String,
    /// `ingester.lifecycler.availability_zone`.
    pub(crate) ingester_zone: String,
    /// `common.replication_factor`.
    pub(crate) replication_factor: usize,
    /// `common.persist_tokens`.
    pub(crate) persists_tokens: bool,
    /// `server.grpc_listen_address` and `server.grpc_listen_port`.
    pub(crate) peer_listen: SocketAddr,
    /// `common.ring.kvstore.etcd`.
    pub(crate) etcd: EtcdKeys,
    /// `server.grpc_tls_config`, `ingester_client.grpc_client_config` and the same of `memberlist`.
    pub(crate) tls: ClusterTls,
    /// `memberlist.node_name`.
    pub(crate) node_name: String,
    /// `memberlist.bind_addr`.
    pub(crate) bind_addr: Vec<String>,
    /// `memberlist.advertise_addr`.
    pub(crate) advertise_addr: String,
    /// `memberlist.max_join_retries`.
    pub(crate) max_join_retries: usize,
    /// The other keys of `memberlist`, and the heartbeat of `common.ring`.
    pub(crate) gossip: Settings,
}

impl Default for ClusterSettings {
    fn default() -> ClusterSettings {
        let gossip = Settings::default();
        ClusterSettings {
            common_store: RingStore::default(),
            ingester_store: RingStore::default(),
            instance_id: String::new(),
            ring_instance_addr: String::new(),
            instance_addr: String::new(),
            ring_interface_names: Vec::new(),
            interface_names: Vec::new(),
            ring_zone: String::new(),
            ingester_zone: String::new(),
            replication_factor: REPLICATION_FACTOR,
            persists_tokens: false,
            peer_listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PEER_PORT),
            etcd: EtcdKeys::default(),
            tls: ClusterTls::default(),
            node_name: String::new(),
            bind_addr: Vec::new(),
            advertise_addr: String::new(),
            max_join_retries: gossip.join.max_join_retries as usize,
            gossip,
        }
    }
}

impl ClusterSettings {
    /// What the keys say about the store of the ring.
    fn store(&self) -> RingStore {
        let said = [self.ingester_store, self.common_store];
        said.into_iter().find(|store| *store != RingStore::Unsaid).unwrap_or_default()
    }

    /// Whether nodes find each other by etcd.
    pub(super) fn is_by_etcd(&self) -> bool {
        self.store() == RingStore::Etcd
    }

    /// Whether the node is one of many.
    pub(crate) fn is_cluster(&self) -> bool {
        match self.store() {
            RingStore::Memberlist | RingStore::Etcd => true,
            RingStore::InMemory => false,
            RingStore::Unsaid => !self.gossip.join.join_members.is_empty(),
        }
    }
}

/// What the paths of keys begin with that a node alone has no use for.
const OF_CLUSTERS: [&str; 9] = [
    "memberlist.",
    "common.ring.",
    "common.instance_",
    "common.replication_factor",
    "common.persist_tokens",
    "ingester.lifecycler.",
    "server.grpc_listen_",
    "server.grpc_tls_config.",
    "ingester_client.grpc_client_config.",
];

/// The keys among those that somebody has given which do nothing, and why.
pub(super) fn without_effect(
    keys: &ClusterSettings,
    said: &Said<'_>,
) -> Vec<(&'static str, &'static str)> {
    let why = match keys.store() {
        RingStore::Memberlist | RingStore::Etcd => return without_effect_in_cluster(keys, said),
        RingStore::Unsaid if keys.is_cluster() => return without_effect_in_cluster(keys, said),
        RingStore::Unsaid => ONE_NODE,
        RingStore::InMemory => "there is one node, since kvstore.store is inmemory",
    };
    let is_of_clusters = |path: &&str| {
        OF_CLUSTERS.iter().any(|start| path.starts_with(start)) && !path.ends_with(".kvstore.store")
    };
    // A value that is the default says nothing, for example in a file that was printed.
    let given = said.given.iter().copied().filter(|path| said.changed.contains(path));
    given.filter(is_of_clusters).map(|path| (path, why)).collect()
}

/// Why a key of the way in which nodes do not find each other does nothing.
fn of_other_store(path: &str, is_by_etcd: bool) -> Option<&'static str> {
    // They tell addresses and names, too.
    const OF_NODES: [&str; 3] =
        ["memberlist.node_name", "memberlist.bind_addr", "memberlist.advertise_addr"];
    let is_of_gossip = path.starts_with("memberlist.") && !OF_NODES.contains(&path);
    let is_of_etcd =
        path.starts_with("common.ring.kvstore.") && path != "common.ring.kvstore.store";
    match is_by_etcd {
        true => is_of_gossip.then_some("nodes find each other by etcd"),
        false => is_of_etcd.then_some("nodes find each other by gossip: see memberlist"),
    }
}

fn without_effect_in_cluster(
    keys: &ClusterSettings,
    said: &Said<'_>,
) -> Vec<(&'static str, &'static str)> {
    let replicas = (
        "common.replication_factor",
        "the bucket meets it: it has each entry before the push is answered, whatever node is lost",
    );
    let tokens =
        ("common.persist_tokens", "there are no tokens: the bucket has who owns which partition");
    let rows = [(replicas, keys.replication_factor > 1), (tokens, keys.persists_tokens)];
    let vain =
        rows.into_iter().filter(|((path, _), is_meant)| *is_meant && said.given.contains(path));
    // A value that is the default says nothing, for example in a file that was printed.
    let changed = said.given.iter().filter(|path| said.changed.contains(path));
    let others = changed.filter_map(|path| {
        let of_other_store = || of_other_store(path, keys.is_by_etcd());
        Some((*path, keys.tls.reason_without_effect(path).or_else(of_other_store)?))
    });
    vain.map(|(row, _)| row).chain(others).collect()
}
