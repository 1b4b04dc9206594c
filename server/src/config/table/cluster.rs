//! The rows of nodes that share a bucket: `memberlist`, the ring, and what goes with them.

use super::{Field, Setting};

/// Where other nodes reach this one.
pub(super) const SERVER: &[Setting] = settings! {
    "server.grpc_listen_address", "server.grpc-listen-address",
        |c| Address(&mut c.cluster_keys.peer_listen),
        "IP address on which a node of a cluster listens for the others. Empty or 0.0.0.0 means all \
         addresses of the machine. They do not speak gRPC there.";
    "server.grpc_listen_port", "server.grpc-listen-port",
        |c| Port(&mut c.cluster_keys.peer_listen),
        "Port on which a node of a cluster listens for the others.";
    "server.grpc_tls_config.cert_file", "server.grpc-tls-cert-path",
        |c| Text(&mut c.cluster_keys.tls.listener.cert_file),
        "File with the certificate that a node shows to others which send it messages, followed by \
         the certificates up to its issuer, as PEM. With it and the key the port for other nodes \
         speaks TLS only, by tls_min_version and tls_cipher_suites. It goes with \
         ingester_client.grpc_client_config.tls_enabled.";
    "server.grpc_tls_config.key_file", "server.grpc-tls-key-path",
        |c| Text(&mut c.cluster_keys.tls.listener.key_file),
        "File with the private key of the certificate, as PEM.";
    "server.grpc_tls_config.client_auth_type", "server.grpc-tls-client-auth",
        |c| Text(&mut c.cluster_keys.tls.listener.client_auth_type),
        "The certificate that other nodes must show, as in http_tls_config. \
         RequireAndVerifyClientCert lets nobody else in.";
    "server.grpc_tls_config.client_ca_file", "server.grpc-tls-ca-path",
        |c| Text(&mut c.cluster_keys.tls.listener.client_ca_file),
        "File with the certificates of the issuers of nodes, as PEM; needed if their certificates \
         are verified.";
};

/// Messages to other nodes. Loki has these keys for its distributors.
pub(super) const INGESTER_CLIENT: &[Setting] = settings! {
    "ingester_client.grpc_client_config.tls_enabled", "ingester.client.tls-enabled",
        |c| Bool(&mut c.cluster_keys.tls.messages.is_enabled),
        "Whether a node sends messages to other nodes over TLS. It goes with \
         server.grpc_tls_config.";
    "ingester_client.grpc_client_config.tls_cert_path", "ingester.client.tls-cert-path",
        |c| Text(&mut c.cluster_keys.tls.messages.cert_path),
        "File with the certificate that a node shows to others which it sends messages, as PEM.";
    "ingester_client.grpc_client_config.tls_key_path", "ingester.client.tls-key-path",
        |c| Text(&mut c.cluster_keys.tls.messages.key_path),
        "File with the private key of that certificate, as PEM.";
    "ingester_client.grpc_client_config.tls_ca_path", "ingester.client.tls-ca-path",
        |c| Text(&mut c.cluster_keys.tls.messages.ca_path),
        "File with the certificates of the issuers that are trusted, as PEM. Empty means those of \
         the system.";
    "ingester_client.grpc_client_config.tls_server_name", "ingester.client.tls-server-name",
        |c| Text(&mut c.cluster_keys.tls.messages.server_name),
        "The name that certificates of all nodes are for. Empty means that each one is for the IP \
         address of its node.";
    "ingester_client.grpc_client_config.tls_insecure_skip_verify", "ingester.client.tls-insecure-skip-verify",
        |c| Bool(&mut c.cluster_keys.tls.messages.insecure_skip_verify),
        "Whether any certificate of a node is good.";
};

/// Loki's section for all its parts.
pub(super) const COMMON: &[Setting] = settings! {
    "common.ring.kvstore.store", "common.storage.ring.store",
        |c| Choice(&mut c.cluster_keys.common_store),
        "How nodes learn of each other. inmemory: there is one node. memberlist: by gossip, see *Many \
         nodes*. etcd: by keys in etcd. Empty means memberlist if memberlist.join_members names \
         somebody, and else inmemory. consul is not supported.";
    "common.ring.kvstore.prefix", "common.storage.ring.prefix",
        |c| Text(&mut c.cluster_keys.etcd.prefix),
        "What the names of all keys in etcd begin with. Each cluster needs one of its own.";
    "common.ring.kvstore.etcd.endpoints", "common.storage.ring.etcd.endpoints",
        |c| Words(&mut c.cluster_keys.etcd.endpoints),
        "Where etcd listens for clients, such as etcd-1:2379 or https://etcd-1:2379. One is asked as \
         long as it answers, and then the next one. The flag may be repeated.";
    "common.ring.kvstore.etcd.dial_timeout", "common.storage.ring.etcd.dial-timeout",
        |c| Duration(&mut c.cluster_keys.etcd.dial_timeout),
        "Longest attempt to connect. Requests take 2 seconds at most, whatever it says.";
    "common.ring.kvstore.etcd.username", "common.storage.ring.etcd.username",
        |c| Text(&mut c.cluster_keys.etcd.username),
        "Name of the user of etcd, if it has users.";
    "common.ring.kvstore.etcd.password", "common.storage.ring.etcd.password",
        |c| Secret(&mut c.cluster_keys.etcd.password),
        "The password of the user.";
    "common.ring.kvstore.etcd.tls_enabled", "common.storage.ring.etcd.tls-enabled",
        |c| Bool(&mut c.cluster_keys.tls.etcd.is_enabled),
        "Whether endpoints without http:// or https:// are spoken to over TLS.";
    "common.ring.kvstore.etcd.tls_cert_path", "common.storage.ring.etcd.tls-cert-path",
        |c| Text(&mut c.cluster_keys.tls.etcd.cert_path),
        "File with the certificate that the node shows to etcd, as PEM.";
    "common.ring.kvstore.etcd.tls_key_path", "common.storage.ring.etcd.tls-key-path",
        |c| Text(&mut c.cluster_keys.tls.etcd.key_path),
        "File with the private key of that certificate, as PEM.";
    "common.ring.kvstore.etcd.tls_ca_path", "common.storage.ring.etcd.tls-ca-path",
        |c| Text(&mut c.cluster_keys.tls.etcd.ca_path),
        "File with the certificates of the issuers that are trusted, as PEM. Empty means those of \
         the system.";
    "common.ring.kvstore.etcd.tls_server_name", "common.storage.ring.etcd.tls-server-name",
        |c| Text(&mut c.cluster_keys.tls.etcd.server_name),
        "The name that the certificates of etcd are for. Empty means the host of the endpoint.";
    "common.ring.kvstore.etcd.tls_insecure_skip_verify", "common.storage.ring.etcd.tls-insecure-skip-verify",
        |c| Bool(&mut c.cluster_keys.tls.etcd.insecure_skip_verify),
        "Whether any certificate of etcd is good.";
    "common.ring.heartbeat_period", "common.storage.ring.heartbeat-period",
        |c| Duration(&mut c.cluster_keys.gossip.heartbeat_period),
        "How often a node repeats what it tells of itself.";
    "common.ring.heartbeat_timeout", "common.storage.ring.heartbeat-timeout",
        |c| Duration(&mut c.cluster_keys.gossip.heartbeat_timeout),
        "A dead node is forgotten three times as long after its last sign of life. At least twice \
         heartbeat_period.";
    "common.ring.instance_id", "common.storage.ring.instance-id",
        |c| Text(&mut c.cluster_keys.instance_id),
        "Name of the node among the others. Empty means memberlist.node_name, or else the name of \
         the machine.";
    "common.ring.instance_addr", "common.storage.ring.instance-addr",
        |c| Text(&mut c.cluster_keys.ring_instance_addr),
        "Like common.instance_addr, and wins over it.";
    "common.ring.instance_interface_names", "common.storage.ring.instance-interface-names",
        |c| Words(&mut c.cluster_keys.ring_interface_names),
        "Like common.instance_interface_names, and wins over them.";
    "common.ring.instance_availability_zone", "common.storage.ring.instance-availability-zone",
        |c| Text(&mut c.cluster_keys.ring_zone),
        "Availability zone of the node.";
    "common.instance_addr", "common.instance-addr",
        |c| Text(&mut c.cluster_keys.instance_addr),
        "IP address at which others reach the node. Empty means memberlist.advertise_addr, or the \
         first of memberlist.bind_addr and server.grpc_listen_address that is one address, or \
         else the first address of the machine that is not its loopback.";
    "common.instance_interface_names", "common.instance-interface-names",
        |c| Words(&mut c.cluster_keys.interface_names),
        "Network interfaces whose addresses are looked at if instance_addr is empty, preferred first. \
         Empty means all.";
    "common.replication_factor", "common.replication-factor",
        |c| Count(&mut c.cluster_keys.replication_factor),
        "No effect: in a cluster the bucket has each entry before its push is answered.";
    "common.persist_tokens", "common.persist-tokens",
        |c| Bool(&mut c.cluster_keys.persists_tokens),
        "No effect: there are no tokens. As in Loki it needs path_prefix.";
};

/// The same of the ingester.
pub(super) const INGESTER: &[Setting] = settings! {
    "ingester.lifecycler.ring.kvstore.store", "ring.store",
        |c| Choice(&mut c.cluster_keys.ingester_store),
        "Like common.ring.kvstore.store, and wins over it.";
    "ingester.lifecycler.availability_zone", "ingester.availability-zone",
        |c| Text(&mut c.cluster_keys.ingester_zone),
        "Availability zone of the node, if common.ring.instance_availability_zone is empty.";
};

/// Gossip.
pub(super) const MEMBERLIST: &[Setting] = settings! {
    "memberlist.node_name", "memberlist.nodename",
        |c| Text(&mut c.cluster_keys.node_name),
        "Name of the node if common.ring.instance_id is empty.";
    "memberlist.bind_addr", "memberlist.bind-addr",
        |c| Words(&mut c.cluster_keys.bind_addr),
        "IP addresses on which to listen for gossip, over UDP and TCP. Empty means all of IPv4.";
    "memberlist.bind_port", "memberlist.bind-port",
        |c| SmallCount(&mut c.cluster_keys.gossip.bind_port),
        "Port for gossip, over UDP and TCP.";
    "memberlist.advertise_addr", "memberlist.advertise-addr",
        |c| Text(&mut c.cluster_keys.advertise_addr),
        "IP address that others use for gossip. Empty means that of common.instance_addr.";
    "memberlist.advertise_port", "memberlist.advertise-port",
        |c| SmallCount(&mut c.cluster_keys.gossip.advertise_port),
        "Port that others use for gossip. 0 means bind_port.";
    "memberlist.cluster_label", "memberlist.cluster-label",
        |c| Text(&mut c.cluster_keys.gossip.cluster_label),
        "Nodes refuse gossip with another label.";
    "memberlist.cluster_label_verification_disabled", "memberlist.cluster-label-verification-disabled",
        |c| Bool(&mut c.cluster_keys.gossip.cluster_label_verification_disabled),
        "Whether nodes take gossip with any label, for the time in which a label is introduced.";
    "memberlist.join_members", "memberlist.join",
        |c| Words(&mut c.cluster_keys.gossip.join.join_members),
        "Nodes to join: host, host:port or dns+host:port for all addresses of a name, dnssrv+name for \
         SRV records. One of them makes the node one of a cluster. The flag may be repeated.";
    "memberlist.min_join_backoff", "memberlist.min-join-backoff",
        |c| Duration(&mut c.cluster_keys.gossip.join.min_join_backoff),
        "First pause after a failed attempt to join; it doubles.";
    "memberlist.max_join_backoff", "memberlist.max-join-backoff",
        |c| Duration(&mut c.cluster_keys.gossip.join.max_join_backoff),
        "Longest such pause.";
    "memberlist.max_join_retries", "memberlist.max-join-retries",
        |c| Count(&mut c.cluster_keys.max_join_retries),
        "After so many failed attempts to join the log says so. The node goes on trying, unless \
         abort_if_cluster_join_fails is set. 0 means never.";
    "memberlist.abort_if_cluster_join_fails", "memberlist.abort-if-join-fails",
        |c| Bool(&mut c.cluster_keys.gossip.join.abort_if_cluster_join_fails),
        "Whether the process ends then.";
    "memberlist.rejoin_interval", "memberlist.rejoin-interval",
        |c| Duration(&mut c.cluster_keys.gossip.join.rejoin_interval),
        "How often addresses of join_members are tried at which no node is known. 0 means \
         max_join_backoff; Loki does not do it then.";
    "memberlist.left_ingesters_timeout", "memberlist.left-ingesters-timeout",
        |c| Duration(&mut c.cluster_keys.gossip.left_ingesters_timeout),
        "How long it is remembered that a node has left.";
    "memberlist.leave_timeout", "memberlist.leave-timeout",
        |c| Duration(&mut c.cluster_keys.gossip.leave_timeout),
        "Longest time that a node which stops takes to tell others that it leaves.";
    "memberlist.gossip_interval", "memberlist.gossip-interval",
        |c| Duration(&mut c.cluster_keys.gossip.gossip_interval),
        "How often news are sent on while there are some.";
    "memberlist.gossip_nodes", "memberlist.gossip-nodes",
        |c| Count(&mut c.cluster_keys.gossip.gossip_nodes),
        "To how many nodes at a time, 1 to 64.";
    "memberlist.pull_push_interval", "memberlist.pullpush-interval",
        |c| Duration(&mut c.cluster_keys.gossip.pull_push_interval),
        "How often a node exchanges all that it knows with another one. 0 means never.";
    "memberlist.packet_dial_timeout", "memberlist.packet-dial-timeout",
        |c| Duration(&mut c.cluster_keys.gossip.packet_dial_timeout),
        "Longest attempt to connect for such an exchange.";
    "memberlist.stream_timeout", "memberlist.stream-timeout",
        |c| Duration(&mut c.cluster_keys.gossip.stream_timeout),
        "Longest such exchange.";
    "memberlist.tls_enabled", "memberlist.tls-enabled",
        |c| Bool(&mut c.cluster_keys.tls.gossip.is_enabled),
        "Whether gossip goes over TLS, by server.tls_min_version and server.tls_cipher_suites. Then \
         all of it goes over TCP, and both sides show a certificate.";
    "memberlist.tls_cert_path", "memberlist.tls-cert-path",
        |c| Text(&mut c.cluster_keys.tls.gossip.cert_path),
        "File with the certificate that a node shows to others, as PEM.";
    "memberlist.tls_key_path", "memberlist.tls-key-path",
        |c| Text(&mut c.cluster_keys.tls.gossip.key_path),
        "File with the private key of that certificate, as PEM.";
    "memberlist.tls_ca_path", "memberlist.tls-ca-path",
        |c| Text(&mut c.cluster_keys.tls.gossip.ca_path),
        "File with the certificates of the issuers of nodes, as PEM.";
    "memberlist.tls_server_name", "memberlist.tls-server-name",
        |c| Text(&mut c.cluster_keys.tls.gossip.server_name),
        "The name that certificates of all nodes are for. Empty means that each one is for the IP \
         address of its node.";
    "memberlist.tls_insecure_skip_verify", "memberlist.tls-insecure-skip-verify",
        |c| Bool(&mut c.cluster_keys.tls.gossip.insecure_skip_verify),
        "Whether any certificate of a node is good.";
};
