//! From files to clusters, their errors, and keys without an effect.

use std::io;
use std::path::Path;
use std::time::Duration;

use super::super::{Config, ConfigErrors, IgnoredKey, Machine, load_in};
use super::*;

/// What a cluster needs besides members.
const BUCKET: &str = "\nstorage: {bucket: 's3://logs', bucket_region: r}\n";

fn load_on(host: &str, text: &str) -> Result<(Config, Vec<IgnoredKey>), Vec<String>> {
    let environment = Environment {
        variable: &|_| None,
        file: &|path: &Path| match path.to_str() {
            Some(HOST_NAME_FILE) => Ok(format!("{host}\n")),
            _ => Err(io::ErrorKind::NotFound.into()),
        },
        now_s: 1_700_000_000,
    };
    let machine = Machine { cores: 2, memory_bytes: Ok(8 << 30), limited_by: None };
    load_in(text, &[], &machine, &environment).map_err(|ConfigErrors(errors)| errors)
}

fn load(text: &str) -> Config {
    load_on("host-7", text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}")).0
}

fn cluster(text: &str) -> ClusterConfig {
    let text = format!("{text}{BUCKET}");
    load(&text).cluster.unwrap_or_else(|| panic!("no cluster: {text}"))
}

fn errors(text: &str) -> Vec<String> {
    load_on("host-7", text).err().unwrap_or_default()
}

/// The errors of a file that has a bucket, too.
fn faults(text: &str) -> Vec<String> {
    errors(&format!("{text}{BUCKET}"))
}

fn ignored(text: &str) -> Vec<(String, &'static str)> {
    let keys = load_on("host-7", text).unwrap_or_else(|errors| panic!("{text}\n{errors:?}")).1;
    keys.into_iter().map(|key| (key.path, key.reason)).collect()
}

#[test]
fn the_store_of_the_ring_decides() {
    for (text, is_cluster) in [
        ("", false),
        ("memberlist: {join_members: []}", false),
        ("memberlist: {bind_port: 7000}", false),
        ("memberlist: {join_members: [a]}", true),
        ("common: {ring: {kvstore: {store: memberlist}}}", true),
        ("common: {ring: {kvstore: {store: inmemory}}}\nmemberlist: {join_members: [a]}", false),
        ("ingester: {lifecycler: {ring: {kvstore: {store: memberlist}}}}", true),
        (
            "ingester: {lifecycler: {ring: {kvstore: {store: inmemory}}}}\n\
             common: {ring: {kvstore: {store: memberlist}}}",
            false,
        ),
        ("common: {ring: {kvstore: {consul: {host: c}}}}\nmemberlist: {join_members: [a]}", true),
    ] {
        let text = format!("{text}{BUCKET}");
        let config = load(&text);
        assert_eq!(config.cluster.is_some(), is_cluster, "{text}");
        // A push is answered when others can have its entries.
        let expected = if is_cluster { Durability::Store } else { Durability::Local };
        assert_eq!(config.wal.durability, expected, "{text}");
        let age = if is_cluster { 600 } else { 60 };
        assert_eq!(config.storage.upload_max_age, Duration::from_secs(age), "{text}");
    }
    let config = load(&format!("wal: {{durability: store}}{BUCKET}"));
    assert_eq!((config.cluster, config.wal.durability), (None, Durability::Store));
}

#[test]
fn defaults_are_those_of_the_reference() {
    let found = cluster("memberlist: {join_members: [a]}");
    assert_eq!(found.instance_id, "host-7");
    assert_eq!((found.advertise_ip, found.zone.as_str()), (None, ""));
    assert_eq!(found.interface_names, [""; 0]);
    assert_eq!(found.peer_listen.to_string(), "0.0.0.0:9095");
    let mut expected = Settings::default();
    expected.join.join_members = vec!["a".to_owned()];
    assert_eq!(found.membership, expected);
}

#[test]
fn every_key_reaches_its_field() {
    let found = cluster(
        "
server: {grpc_listen_address: 10.0.0.9, grpc_listen_port: 9000}
common:
  instance_addr: 10.0.0.1
  instance_interface_names: [eth1]
  ring:
    instance_id: n1
    instance_addr: 10.0.0.2
    instance_interface_names: [eth0, lo]
    instance_availability_zone: z1
    heartbeat_period: 1s
    heartbeat_timeout: 2s
ingester: {lifecycler: {availability_zone: z2}}
memberlist:
  node_name: other
  bind_addr: ['10.0.0.3', '[::1]', localhost]
  bind_port: 1
  advertise_addr: 10.0.0.4
  advertise_port: 2
  cluster_label: l
  cluster_label_verification_disabled: true
  join_members: ['dnssrv+s', 'b:3']
  min_join_backoff: 3s
  max_join_backoff: 4s
  max_join_retries: 5
  abort_if_cluster_join_fails: true
  rejoin_interval: 6s
  left_ingesters_timeout: 7s
  leave_timeout: 8s
  gossip_interval: 9s
  gossip_nodes: 10
  pull_push_interval: 11s
  packet_dial_timeout: 12s
  stream_timeout: 13s
",
    );
    let seconds = Duration::from_secs;
    assert_eq!((found.instance_id.as_str(), found.zone.as_str()), ("n1", "z1"));
    assert_eq!(found.interface_names, ["eth0", "lo"]);
    assert_eq!(found.peer_listen, SocketAddr::from(([10, 0, 0, 9], 9000)));
    assert_eq!(found.advertise_ip, Some([10, 0, 0, 2].into()));
    let gossip = found.membership;
    let loopback = ["::1".parse().expect("an address"), IpAddr::from([127, 0, 0, 1])];
    assert_eq!(gossip.bind_addr, [&[IpAddr::from([10, 0, 0, 3])], &loopback[..]].concat());
    assert_eq!(gossip.advertise_addr, Some([10, 0, 0, 4].into()));
    assert_eq!((gossip.bind_port, gossip.advertise_port), (1, 2));
    assert!(gossip.cluster_label == "l" && gossip.cluster_label_verification_disabled);
    assert_eq!(gossip.join.join_members, ["dnssrv+s", "b:3"]);
    let backoff = (gossip.join.min_join_backoff, gossip.join.max_join_backoff);
    assert_eq!(backoff, (seconds(3), seconds(4)));
    assert_eq!(gossip.join.max_join_retries, 5);
    assert!(gossip.join.abort_if_cluster_join_fails);
    assert_eq!(gossip.join.rejoin_interval, seconds(6));
    assert_eq!((gossip.left_ingesters_timeout, gossip.leave_timeout), (seconds(7), seconds(8)));
    assert_eq!((gossip.gossip_interval, gossip.gossip_nodes), (seconds(9), 10));
    assert_eq!(gossip.pull_push_interval, seconds(11));
    assert_eq!((gossip.packet_dial_timeout, gossip.stream_timeout), (seconds(12), seconds(13)));
    assert_eq!((gossip.heartbeat_period, gossip.heartbeat_timeout), (seconds(1), seconds(2)));
}

#[test]
fn the_first_address_that_is_said_is_advertised() {
    const JOIN: &str = "memberlist: {join_members: [a]";
    for (text, expected) in [
        (format!("{JOIN}, bind_addr: ['0.0.0.0', '10.0.0.3']}}"), "10.0.0.3"),
        (format!("{JOIN}, bind_addr: ['10.0.0.3'], advertise_addr: 10.0.0.4}}"), "10.0.0.4"),
        (format!("{JOIN}}}\nserver: {{grpc_listen_address: '::ffff:10.0.0.5'}}"), "10.0.0.5"),
        (format!("{JOIN}}}\ncommon: {{instance_addr: '[fd00::1]'}}"), "fd00::1"),
    ] {
        let found = cluster(&text);
        let expected: IpAddr = expected.parse().expect("an address");
        assert_eq!(found.advertise_ip.map(|ip| ip.to_canonical()), Some(expected), "{text}");
        let of_gossip = found.membership.advertise_addr.map(|ip| ip.to_canonical());
        assert_eq!(of_gossip, Some(expected), "{text}");
    }
    // The names of nodes follow each other, too.
    assert_eq!(cluster(&format!("{JOIN}, node_name: m}}")).instance_id, "m");
    let zone = "\ningester: {lifecycler: {availability_zone: z2}}";
    assert_eq!(cluster(&format!("{JOIN}}}{zone}")).zone, "z2");
}

#[test]
fn what_no_cluster_can_run_with_is_refused() {
    const JOIN: &str = "memberlist: {join_members: [a]";
    for (text, expected) in [
        (
            "common: {ring: {kvstore: {store: consul}}}".to_owned(),
            "common.ring.kvstore.store: consul is not supported: nodes find each other by gossip",
        ),
        (
            "ingester: {lifecycler: {ring: {kvstore: {store: multi}}}}".to_owned(),
            "ingester.lifecycler.ring.kvstore.store: multi is not supported",
        ),
        (
            "common: {ring: {kvstore: {store: x}}}".to_owned(),
            "common.ring.kvstore.store: \"x\" is none of inmemory, memberlist and etcd",
        ),
        (
            format!("{JOIN}}}\nwal: {{durability: local}}"),
            "wal.durability: local does not do where several nodes share a bucket",
        ),
        (format!("{JOIN}}}\nwal: {{sync: never}}"), "wal.durability: store needs wal.sync: always"),
        (
            format!("{JOIN}, advertise_addr: here}}"),
            "memberlist.advertise_addr: \"here\" is not an IP address such as 10.0.0.7",
        ),
        (
            format!("{JOIN}, bind_addr: [eth0]}}"),
            "memberlist.bind_addr: \"eth0\" is not an IP address",
        ),
        (
            format!("{JOIN}}}\ncommon: {{instance_addr: '::'}}"),
            "common.instance_addr: others cannot use the address ::",
        ),
        (format!("{JOIN}, gossip_nodes: 0}}"), "memberlist: gossip_nodes must be from 1 to 64"),
        (
            "memberlist: {join_members: ['a:b']}".to_owned(),
            "memberlist: join_members: \"a:b\" is none of host, host:port",
        ),
        (
            format!("{JOIN}}}\ncommon: {{ring: {{heartbeat_timeout: 1s}}}}"),
            "common.ring: heartbeat_timeout must be at least 2 times heartbeat_period",
        ),
        (
            format!("{JOIN}}}\nserver: {{grpc_listen_port: 0}}"),
            "server.grpc_listen_port: must not be 0 where there are others",
        ),
        (
            format!(
                "{JOIN}}}\ncommon: {{ring: {{instance_availability_zone: {}}}}}",
                "z".repeat(65)
            ),
            "common.ring: the name of a zone has at most 64 bytes, and not 65",
        ),
    ] {
        let told = faults(&text);
        assert_eq!(told.len(), 1, "{text}: {told:?}");
        assert!(told[0].starts_with(expected), "{text}: {}", told[0]);
    }
    let nameless = format!("{JOIN}}}{BUCKET}");
    for host in ["", "(none)"] {
        let told = load_on(host, &nameless).expect_err("nobody has named it");
        assert_eq!(told, ["common.ring.instance_id: set it, this machine has no name"]);
    }
}

#[test]
fn a_cluster_needs_a_bucket() {
    let expected = "common.ring.kvstore.store: memberlist, which memberlist.join_members means as \
                    well, needs a bucket that all nodes share: set storage.bucket";
    for text in [
        "memberlist: {join_members: [a]}",
        "common: {ring: {kvstore: {store: memberlist}}}",
        "memberlist: {join_members: [a]}\ncommon: {storage: {filesystem: {}}}\n\
         schema_config: {configs: [{from: 2020-01-01, object_store: filesystem}]}",
        "memberlist: {join_members: [a]}\nwal: {durability: store}",
    ] {
        assert_eq!(errors(text), [expected], "{text}");
    }
    // A bucket that cannot be read may be one.
    for text in ["{bucket: 'x://y'}", "{bucket: [a]}"] {
        let text = format!("memberlist: {{join_members: [a]}}\nstorage: {text}");
        let told = errors(&text);
        assert!(told.len() == 1 && told[0] != expected, "{told:?}");
    }
    let folder = "memberlist: {join_members: [a]}\nstorage: {bucket: 'file:///srv/bucket'}";
    assert!(load(folder).cluster.is_some());
}

#[test]
fn keys_that_do_nothing_are_named() {
    let alone = "memberlist: {bind_port: 1, join_members: [], gossip_nodes: 3}\nserver: {grpc_listen_port: 9096}\n\
                 common: {instance_addr: 127.0.0.1, ring: {kvstore: {store: ''}, instance_id: a}}";
    let named = ignored(alone);
    let paths: Vec<&str> = named.iter().map(|(path, _)| path.as_str()).collect();
    let expected = [
        "server.grpc_listen_port",
        "common.ring.instance_id",
        "common.instance_addr",
        "memberlist.bind_port",
    ];
    assert_eq!(paths, expected);
    assert!(named.iter().all(|(_, reason)| *reason == "there is one node"));
    let said = "common: {ring: {kvstore: {store: inmemory}}}\nmemberlist: {join_members: [a]}";
    let why = "there is one node, since kvstore.store is inmemory";
    assert_eq!(ignored(said), [("memberlist.join_members".to_owned(), why)]);

    let many = "memberlist: {join_members: [a], transport_debug: true}\n\
                common: {replication_factor: 3, persist_tokens: true, path_prefix: /srv}";
    let named = ignored(&format!("{many}{BUCKET}"));
    let paths: Vec<&str> = named.iter().map(|(path, _)| path.as_str()).collect();
    let expected =
        ["memberlist.transport_debug", "common.replication_factor", "common.persist_tokens"];
    assert_eq!(paths, expected);
    assert!(named[1].1.starts_with("the bucket meets it"), "{named:?}");
    let one = "memberlist: {join_members: [a]}\ncommon: {replication_factor: 1}";
    assert_eq!(ignored(&format!("{one}{BUCKET}")), []);
}

#[test]
fn keys_that_exclude_each_other_are_refused() {
    const CLIENTS: &str = "both `grpc_client_config` and (`query_frontend_grpc_client` or \
                           `query_scheduler_grpc_client`) are set at the same time. Please use only \
                           `query_frontend_grpc_client` and `query_scheduler_grpc_client`";
    const TOKENS: &str = "if persist_tokens is true, path_prefix MUST be defined";
    let worker = |keys: &str| errors(&format!("frontend_worker: {{{keys}}}"));
    assert_eq!(worker("grpc_client_config: {}, query_frontend_grpc_client: {}"), [CLIENTS]);
    assert_eq!(worker("grpc_client_config: {}, query_scheduler_grpc_client: {}"), [CLIENTS]);
    for keys in [
        "grpc_client_config: {}",
        "query_frontend_grpc_client: {}, query_scheduler_grpc_client: {}",
        "grpc_client_config: {}, query_frontend_grpc_client: null",
    ] {
        assert_eq!(worker(keys), [""; 0], "{keys}");
    }
    assert_eq!(errors("common: {persist_tokens: true}"), [TOKENS]);
    for text in [
        "common: {persist_tokens: true, path_prefix: /srv}",
        "common: {persist_tokens: true}\ndata_dir: /srv",
        "common: {persist_tokens: false}",
    ] {
        assert_eq!(errors(text), [""; 0], "{text}");
    }
}

#[test]
fn a_node_of_a_cluster_has_the_parts_of_its_target() {
    let parts = |text: &str| cluster(&format!("memberlist: {{join_members: [a]}}\n{text}")).parts;
    assert_eq!(parts(""), targets::ALL);
    assert_eq!(parts("target: read"), targets::of("querier,query-frontend", false));
    let legacy = parts("target: read\nlegacy_read_mode: true");
    assert!(legacy.has(Part::Compactor) && !legacy.has(Part::Ingester));
    let refused =
        faults("memberlist: {join_members: [a]}\ntarget: 'write,backend'\nlegacy_read_mode: true");
    let expected = "CONFIG ERROR: invalid target, cannot run backend target with legacy read mode";
    assert_eq!(refused, [expected]);
    // Without others all parts are there.
    let single = load("target: backend\nlegacy_read_mode: true");
    assert_eq!(single.parts(), targets::ALL);
    assert_eq!(ignored("target: backend").len(), 1);
    let of_cluster = format!("memberlist: {{join_members: [a]}}\ntarget: read{BUCKET}");
    assert!(ignored(&of_cluster).iter().all(|(path, _)| path != "target"));
}

#[test]
fn who_stores_no_entries_needs_no_durable_log() {
    let text = |target: &str| {
        format!(
            "memberlist: {{join_members: [a]}}\ntarget: {target}\n\
             wal: {{durability: local, sync: never}}{BUCKET}"
        )
    };
    let config = load(&text("'querier,ruler'"));
    assert_eq!(config.wal.durability, Durability::Store);
    assert!(!errors(&text("write")).is_empty());
}

#[test]
fn etcd_may_take_the_place_of_gossip() {
    const ETCD: &str = "common: {ring: {kvstore: {store: etcd, etcd: {endpoints: [e1:2379]";
    let found = cluster(&format!("{ETCD}}}}}, heartbeat_timeout: 30s}}}}"));
    let etcd = found.etcd.expect("there is etcd");
    assert_eq!(etcd.endpoints, ["e1:2379"]);
    assert_eq!((etcd.prefix.as_str(), etcd.is_secure), ("collectors/", false));
    let times = (etcd.dial_timeout, etcd.heartbeat_timeout);
    assert_eq!(times, (Duration::from_secs(10), Duration::from_secs(30)));
    let text = format!("{ETCD}, dial_timeout: 1s, username: u, password: p}}, prefix: p/}}}}}}");
    let etcd = cluster(&text).etcd.expect("there is etcd");
    assert_eq!((etcd.username.as_str(), etcd.password.as_str()), ("u", "p"));
    assert_eq!((etcd.prefix.as_str(), etcd.dial_timeout), ("p/", Duration::from_secs(1)));
    assert_eq!(cluster("memberlist: {join_members: [a]}").etcd, None);

    let none = faults("common: {ring: {kvstore: {store: etcd}}}");
    assert_eq!(none.len(), 1, "{none:?}");
    assert!(none[0].starts_with("common.ring.kvstore.etcd.endpoints: name at least one"));
    let half = faults(&format!("{ETCD}, username: u}}}}}}}}"));
    assert_eq!(half, ["common.ring.kvstore.etcd.username and password go together"]);
    let alone = errors(&format!("{ETCD}}}}}}}}}"));
    assert_eq!(alone.len(), 1, "{alone:?}");
    let expected = "common.ring.kvstore.store: etcd needs a bucket that all nodes share";
    assert!(alone[0].starts_with(expected), "{alone:?}");

    let paths = |text: &str| -> Vec<String> {
        ignored(&format!("{text}{BUCKET}")).into_iter().map(|(path, _)| path).collect()
    };
    let both =
        format!("{ETCD}, max_retries: 1}}}}}}}}\nmemberlist: {{join_members: [a], node_name: n}}");
    let expected = ["common.ring.kvstore.etcd.max_retries", "memberlist.join_members"];
    assert_eq!(paths(&both), expected);
    let gossip = both.replace("store: etcd", "store: memberlist");
    let expected = ["common.ring.kvstore.etcd.max_retries", "common.ring.kvstore.etcd.endpoints"];
    assert_eq!(paths(&gossip), expected);
}

#[cfg(feature = "tls")]
mod encryption {
    use super::super::super::TlsConfig;
    use super::*;

    const CLIENT: &str = "\ningester_client: {grpc_client_config: {tls_enabled: true";
    const SERVER: &str = "\nserver: {grpc_tls_config: {cert_file: c, key_file: k";
    const GOSSIP: &str = "memberlist: {join_members: [a], tls_enabled: true";
    const JOIN: &str = "memberlist: {join_members: [a]}";

    #[test]
    fn every_key_of_encryption_reaches_its_field() {
        let found = cluster(
            "
server:
  tls_min_version: VersionTLS13
  tls_cipher_suites: [TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256]
  grpc_tls_config:
    {cert_file: c, key_file: k, client_auth_type: RequireAndVerifyClientCert, client_ca_file: a}
ingester_client:
  grpc_client_config:
    tls_enabled: true
    tls_cert_path: c1
    tls_key_path: k1
    tls_ca_path: a1
    tls_server_name: s1
    tls_insecure_skip_verify: true
memberlist:
  join_members: [a]
  tls_enabled: true
  tls_cert_path: c2
  tls_key_path: k2
  tls_ca_path: a2
  tls_server_name: s2
",
        )
        .tls;
        let client = |number: u8, insecure_skip_verify| ClientTlsConfig {
            is_enabled: true,
            cert_path: format!("c{number}"),
            key_path: format!("k{number}"),
            ca_path: format!("a{number}"),
            server_name: format!("s{number}"),
            insecure_skip_verify,
        };
        assert_eq!((&found.messages, &found.gossip), (&client(1, true), &client(2, false)));
        assert_eq!(found.files(), ["c", "k", "a", "c1", "k1", "a1", "c2", "k2", "a2", "", "", ""]);
        let listener = &found.listener;
        assert_eq!(listener.client_auth_type, "RequireAndVerifyClientCert");
        // Versions and suites are those of the HTTP server.
        let rules = |it: &TlsConfig| (it.min_version.clone(), it.cipher_suites.len());
        let of_gossip = found.gossip_listener();
        for one in [listener, &of_gossip] {
            assert_eq!(rules(one), ("VersionTLS13".to_owned(), 1));
        }
        assert_eq!(of_gossip.client_auth_type, "RequireAndVerifyClientCert");
        assert_eq!((of_gossip.cert_file.as_str(), of_gossip.client_ca_file.as_str()), ("c2", "a2"));
        let lax = format!(
            "{GOSSIP}, tls_cert_path: c, tls_key_path: k, tls_insecure_skip_verify: true}}"
        );
        let of_gossip = cluster(&lax).tls.gossip_listener();
        assert_eq!(of_gossip.client_auth_type, "RequireAnyClientCert");
        assert_eq!(cluster(JOIN).tls, ClusterTls::default());
        assert!(!cluster(JOIN).tls.gossip_listener().is_on());
    }

    #[test]
    fn what_nodes_could_not_speak_with_each_other_is_refused() {
        for (text, expected) in [
            (
                format!("{JOIN}{SERVER}}}}}"),
                "server.grpc_tls_config: nodes would not reach each other, since \
                 ingester_client.grpc_client_config.tls_enabled is false",
            ),
            (
                format!("{JOIN}{CLIENT}}}}}"),
                "ingester_client.grpc_client_config.tls_enabled: needs \
                 server.grpc_tls_config.cert_file and key_file",
            ),
            (
                format!("{JOIN}{SERVER}}}}}{CLIENT}, tls_cert_path: c}}}}"),
                "ingester_client.grpc_client_config: tls_cert_path and tls_key_path go together",
            ),
            (
                format!("{JOIN}{SERVER}, client_auth_type: RequireAnyClientCert}}}}{CLIENT}}}}}"),
                "server.grpc_tls_config.client_auth_type: RequireAnyClientCert needs \
                 ingester_client.grpc_client_config.tls_cert_path and tls_key_path",
            ),
            (
                format!("{GOSSIP}, tls_ca_path: a, tls_key_path: k}}"),
                "memberlist.tls_enabled: needs tls_cert_path and tls_key_path",
            ),
            (
                format!("{GOSSIP}, tls_cert_path: c, tls_key_path: k}}"),
                "memberlist.tls_enabled: needs tls_ca_path",
            ),
            (
                format!("{JOIN}{SERVER}, client_auth_type: Always}}}}{CLIENT}}}}}"),
                "error generating grpc tls config: invalid client auth type \"Always\"",
            ),
            (
                format!(
                    "{JOIN}{SERVER}, client_auth_type: RequireAndVerifyClientCert}}}}{CLIENT}, \
                     tls_cert_path: c, tls_key_path: k}}}}"
                ),
                "error generating grpc tls config: RequireAndVerifyClientCert needs client_ca_file",
            ),
            // What every server has in common is told once.
            (
                format!(
                    "{JOIN}\nserver: {{tls_min_version: x, grpc_tls_config: {{cert_file: c, key_file: k}}}}{CLIENT}}}}}"
                ),
                "error generating http tls config: TLS version \"x\" not recognized",
            ),
        ] {
            let told = faults(&text);
            assert_eq!(told.len(), 1, "{text}: {told:?}");
            assert!(told[0].starts_with(expected), "{text}: {}", told[0]);
        }
        let half = faults("server: {grpc_tls_config: {cert_file: c}}");
        assert_eq!(half, ["error generating grpc tls config: cert_file and key_file go together"]);
    }

    #[test]
    fn keys_of_encryption_without_an_effect_are_named() {
        let paths = |text: &str| -> Vec<String> {
            ignored(&format!("{text}{BUCKET}")).into_iter().map(|(path, _)| path).collect()
        };
        let plain = "memberlist: {join_members: [a], tls_ca_path: a}\n\
                     ingester_client: {grpc_client_config: {tls_server_name: s, rate_limit: 1}}";
        let expected = [
            "ingester_client.grpc_client_config.rate_limit",
            "ingester_client.grpc_client_config.tls_server_name",
            "memberlist.tls_ca_path",
        ];
        assert_eq!(paths(plain), expected);
        let alone = format!("{SERVER}}}}}");
        let expected = ["server.grpc_tls_config.cert_file", "server.grpc_tls_config.key_file"];
        assert_eq!(paths(&alone), expected);
    }

    #[test]
    fn etcd_is_spoken_to_over_tls_if_somebody_says_so() {
        const ETCD: &str = "common: {ring: {kvstore: {store: etcd, etcd: {endpoints: [";
        let found = cluster(&format!("{ETCD}'https://e1:2379'], tls_ca_path: a}}}}}}}}"));
        let client =
            ClientTlsConfig { is_enabled: true, ca_path: "a".into(), ..Default::default() };
        assert_eq!(found.tls.etcd, client);
        assert_eq!(found.etcd.map(|etcd| etcd.is_secure), Some(false), "others say so themselves");
        let text = format!(
            "{ETCD}e1:2379], tls_enabled: true, tls_cert_path: c, tls_key_path: k, \
             tls_server_name: s, tls_insecure_skip_verify: true}}}}}}}}"
        );
        let found = cluster(&text);
        assert_eq!(found.etcd.map(|etcd| etcd.is_secure), Some(true));
        let tls = found.tls.etcd;
        assert_eq!((tls.cert_path.as_str(), tls.server_name.as_str()), ("c", "s"));
        assert!(tls.is_enabled && tls.insecure_skip_verify);
        let half = faults(&text.replace("tls_key_path: k, ", ""));
        let expected = "common.ring.kvstore.etcd: tls_cert_path and tls_key_path go together";
        assert_eq!(half, [expected]);
    }
}
