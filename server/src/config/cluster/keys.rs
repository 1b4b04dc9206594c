//! The keys as they are written, and which of them do nothing.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use logsvc_membership::settings::Settings;

use super::super::choice::Choice;
use super::encryption::ClusterTls;
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
}

impl Choice for RingStore {
    fn words(&self) -> &'static str {
        "inmemory|memberlist"
    }

    fn word(&self) -> &'static str {
        match self {
            RingStore::Unsaid => "",
            RingStore::InMemory => "inmemory",
            RingStore::Memberlist => "memberlist",
        }
    }

    fn choose(&mut self, word: &str) -> bool {
        *self = match word {
            "" => RingStore::Unsaid,
            "inmemory" => RingStore::InMemory,
            "memberlist" => RingStore::Memberlist,
            _ => return false,
        };
        true
    }

    fn fault(&self, word: &str) -> String {
        match word {
            "consul" | "etcd" | "multi" => format!(
                "{word} is not supported: nodes find each other by gossip (memberlist), and the \
                 bucket decides what only one of them may do"
            ),
            word => format!("{word:?} is neither inmemory nor memberlist"),
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

    /// Whether the node is one of many.
    pub(crate) fn is_cluster(&self) -> bool {
        match self.store() {
            RingStore::Memberlist => true,
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
        RingStore::Memberlist => return without_effect_in_cluster(keys, said),
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
    let unencrypted = said.given.iter().filter(|path| said.changed.contains(path));
    let unencrypted =
        unencrypted.filter_map(|path| Some((*path, keys.tls.reason_without_effect(path)?)));
    vain.map(|(row, _)| row).chain(unencrypted).collect()
}
