//! Starts the gossip of a node that is one of many, or what is in its place, and finds the address that others use.
//!
//! Guarantees: nothing here waits for another node, except [`joined`], which ends whether or not
//! anybody answers. A node that has an address of its own never advertises its loopback.
//!
//! What can go wrong: the ports of the gossip are taken, the machine has no address, or nobody of
//! `memberlist.join_members` answers. The last one ends the node only if it was asked to.

use std::net::{IpAddr, SocketAddr};

use logsvc_membership::membership::Membership;
use logsvc_membership::settings::Settings;
use logsvc_membership::vitals::Vitals;
use logsvc_runtime::{InterfaceAddress, Runtime, interface_addresses};

use crate::config::ClusterConfig;

/// The versions of the protocol between nodes that this node speaks.
pub(crate) const PROTOCOL: std::ops::RangeInclusive<u16> = 1..=1;

/// What a node tells of itself when it starts, besides its settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Me {
    /// Where the HTTP server listens, with its real port.
    pub(crate) http: SocketAddr,
    /// The port on which it listens for other nodes.
    pub(crate) peer_port: u16,
    /// The epoch under which the node writes, if it does already.
    pub(crate) writer_epoch: Option<u32>,
    /// The number of the newest map that the node knows; 0 if it knows none.
    pub(crate) map_number: u64,
}

/// Begins to take part in the gossip, and tells where other nodes reach this one. It goes on until the
/// node leaves or stops. `begin` starts the gossip, or what is in its place. For core 0.
///
/// # Errors
/// The machine has no address that others could use, or the ports cannot be listened on.
pub(crate) fn start<R: Runtime>(
    runtime: &R,
    config: &ClusterConfig,
    me: Me,
    begin: impl FnOnce(Settings, Vitals) -> Result<Membership, String>,
) -> Result<(Membership, SocketAddr), String> {
    let ip = advertised(config)?;
    let vitals = vitals(config, ip, me, runtime.unix_nanos());
    let mut settings = config.membership.clone();
    settings.advertise_addr = settings.advertise_addr.or(Some(ip));
    tracing::info!(
        instance = config.instance_id,
        address = %ip,
        join_members = settings.join.join_members.len(),
        "this node is one of a cluster"
    );
    let address = SocketAddr::new(ip.to_canonical(), me.peer_port);
    let membership = begin(settings, vitals)?;
    Ok((membership, address))
}

/// Ends when a member has let this node in, when there is nobody to ask, or when nobody has answered
/// in `max_join_retries` attempts. The gossip goes on trying.
///
/// # Errors
/// Nobody has answered, and the settings say that the node shall end then.
pub(crate) async fn joined(membership: &Membership, config: &ClusterConfig) -> Result<(), String> {
    let Err(error) = membership.joined().await else { return Ok(()) };
    let text = format!("failed to join memberlist cluster on startup: {error}");
    if config.membership.join.abort_if_cluster_join_fails {
        return Err(text);
    }
    tracing::warn!("{text}; the node goes on trying");
    Ok(())
}

/// The address at which others reach this node.
///
/// # Errors
/// The settings name none, and the machine has none.
pub(crate) fn advertised(config: &ClusterConfig) -> Result<IpAddr, String> {
    if let Some(ip) = config.advertise_ip {
        return Ok(ip);
    }
    let found = interface_addresses()
        .map_err(|error| format!("common.instance_addr: set it, no address was found: {error}"))?;
    let ip = choose(&found, &config.interface_names, hears_ipv6(&config.membership))?;
    if ip.is_loopback() && config.interface_names.is_empty() {
        tracing::warn!(
            "this machine has no address besides its loopback, so only nodes on it can reach this \
             one: set common.instance_addr"
        );
    }
    Ok(ip)
}

/// Whether gossip to an address of IPv6 arrives.
fn hears_ipv6(settings: &Settings) -> bool {
    settings.bind_addr.iter().any(IpAddr::is_ipv6)
}

/// The first of the addresses that others can use: of the interfaces in the order of `names`, or of
/// all. IPv4 comes before IPv6, which counts only if the node hears it. The loopback is the last resort
/// where nobody has named it.
///
/// # Errors
/// There is none.
fn choose(
    found: &[InterfaceAddress],
    names: &[String],
    hears_ipv6: bool,
) -> Result<IpAddr, String> {
    let is_of_link = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let best = |ips: &[IpAddr]| {
        let usable =
            || ips.iter().filter(|ip| !is_of_link(ip) && (hears_ipv6 || ip.is_ipv4())).copied();
        usable().find(IpAddr::is_ipv4).or_else(|| usable().next())
    };
    if names.is_empty() {
        let (loopback, others): (Vec<IpAddr>, Vec<IpAddr>) =
            found.iter().map(|address| address.ip).partition(IpAddr::is_loopback);
        return best(&others)
            .or_else(|| best(&loopback))
            .ok_or_else(|| "common.instance_addr: set it, this machine has no address".to_owned());
    }
    let of = |name: &String| -> Vec<IpAddr> {
        found.iter().filter(|address| address.interface == *name).map(|a| a.ip).collect()
    };
    names.iter().find_map(|name| best(&of(name))).ok_or_else(|| {
        format!(
            "common.instance_interface_names: none of {} has an address that others can use",
            names.join(", ")
        )
    })
}

/// What the node tells of itself at its start.
fn vitals(config: &ClusterConfig, ip: IpAddr, me: Me, unix_nanos: i64) -> Vitals {
    let reachable = |listened: SocketAddr| {
        let ip = if listened.ip().is_unspecified() { ip } else { listened.ip() };
        Some(SocketAddr::new(ip.to_canonical(), listened.port()))
    };
    Vitals {
        roles: config.parts,
        started_unix_ms: u64::try_from(unix_nanos / 1_000_000).unwrap_or(0),
        map_number: me.map_number,
        writer_epoch: me.writer_epoch,
        zone: config.zone.clone(),
        transport: Some(SocketAddr::new(ip.to_canonical(), me.peer_port)),
        http: reachable(me.http),
        ..Vitals::joining(config.instance_id.as_str(), PROTOCOL)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use logsvc_membership::driver;
    use logsvc_membership::engine::Change;
    use logsvc_membership::settings::JoinSettings;
    use logsvc_runtime::sim::{SimRuntime, Simulation};

    use super::*;
    use crate::config::{ClusterTls, targets};

    fn addresses(pairs: &[(&str, &str)]) -> Vec<InterfaceAddress> {
        let address = |(name, ip): &(&str, &str)| InterfaceAddress {
            interface: (*name).to_owned(),
            ip: ip.parse().expect("an address"),
        };
        pairs.iter().map(address).collect()
    }

    fn chosen(names: &[&str], hears_ipv6: bool) -> Result<String, String> {
        let found = addresses(&[
            ("lo", "127.0.0.1"),
            ("eth0", "fe80::1"),
            ("eth0", "fd00::1"),
            ("eth1", "169.254.1.1"),
            ("eth1", "10.0.0.1"),
            ("eth2", "10.0.0.2"),
            ("lo", "::1"),
        ]);
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        choose(&found, &names, hears_ipv6).map(|ip| ip.to_string())
    }

    #[test]
    fn the_first_address_that_others_can_use_is_advertised() {
        for (names, hears_ipv6, expected) in [
            (&[][..], false, "10.0.0.1"),
            (&[], true, "10.0.0.1"),
            (&["eth0"], true, "fd00::1"),
            (&["eth0", "eth2"], false, "10.0.0.2"),
            (&["eth2", "eth1"], false, "10.0.0.2"),
            (&["none", "lo"], false, "127.0.0.1"),
        ] {
            assert_eq!(chosen(names, hears_ipv6), Ok(expected.to_owned()), "{names:?}");
        }
        let refused = chosen(&["eth0", "x"], false).expect_err("no address of IPv4");
        let expected = "common.instance_interface_names: none of eth0, x has an address that others \
                        can use";
        assert_eq!(refused, expected);
        let alone = addresses(&[("lo", "::1"), ("lo", "127.0.0.1"), ("eth0", "fe80::1")]);
        assert_eq!(choose(&alone, &[], true), Ok([127, 0, 0, 1].into()));
        let none = "common.instance_addr: set it, this machine has no address";
        assert_eq!(choose(&[], &[], true), Err(none.to_owned()));
    }

    fn config(name: &str, join: &[&str]) -> ClusterConfig {
        let join_members = join.iter().map(|member| (*member).to_owned()).collect();
        ClusterConfig {
            parts: targets::ALL,
            instance_id: name.to_owned(),
            advertise_ip: Some([127, 0, 0, 1].into()),
            interface_names: Vec::new(),
            zone: "z".to_owned(),
            peer_listen: ([0, 0, 0, 0], 9095).into(),
            tls: ClusterTls::default(),
            etcd: None,
            membership: Settings {
                bind_addr: vec![[127, 0, 0, 1].into()],
                bind_port: 0,
                join: JoinSettings { join_members, max_join_retries: 1, ..JoinSettings::default() },
                ..Settings::default()
            },
        }
    }

    /// Starts with gossip that is not encrypted.
    fn plain(
        runtime: &SimRuntime,
        config: &ClusterConfig,
        me: Me,
    ) -> Result<(Membership, SocketAddr), String> {
        start(runtime, config, me, |settings, vitals| {
            driver::start(runtime, settings, vitals).map_err(|error| error.to_string())
        })
    }

    const ME: Me = Me {
        http: SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 3100),
        peer_port: 9095,
        writer_epoch: Some(4),
        map_number: 2,
    };

    #[test]
    fn addresses_are_looked_for_only_if_none_is_said() {
        let mut config = config("a", &[]);
        assert_eq!(advertised(&config), Ok([127, 0, 0, 1].into()));
        config.advertise_ip = None;
        config.interface_names = vec!["no-such-interface".to_owned()];
        let refused = advertised(&config).expect_err("there is no such interface");
        assert!(refused.starts_with("common.instance_interface_names: "), "{refused}");
    }

    #[test]
    fn a_node_tells_what_it_is() {
        let told = vitals(&config("a", &[]), [10, 0, 0, 1].into(), ME, 5_000_000);
        assert_eq!(told.check(), Ok(()));
        assert_eq!((told.instance.as_str(), told.zone.as_str()), ("a", "z"));
        assert_eq!(told.transport, Some(([10, 0, 0, 1], 9095).into()));
        assert_eq!(told.http, Some(([10, 0, 0, 1], 3100).into()));
        assert_eq!((told.started_unix_ms, told.map_number), (5, 2));
        assert_eq!((told.protocol_min, told.protocol_max), (1, 1));
        assert_eq!(told.roles, targets::ALL);
        // A server on one address alone is there, and nowhere else.
        let me = Me { http: ([127, 0, 0, 1], 3100).into(), ..ME };
        let told = vitals(&config("a", &[]), [10, 0, 0, 1].into(), me, 0);
        assert_eq!(told.http, Some(([127, 0, 0, 1], 3100).into()));
    }

    #[test]
    fn nodes_know_each_others_writers() {
        Simulation::new(7).block_on(|runtime| async move {
            let (first, _) = plain(&runtime, &config("a", &[]), ME).expect("it starts");
            assert_eq!(joined(&first, &config("a", &[])).await, Ok(()));
            let join = first.members().me.address.to_string();
            let other = config("b", &[&join]);
            let me = Me { writer_epoch: None, ..ME };
            let (second, _) = plain(&runtime, &other, me).expect("it starts");
            assert_eq!(joined(&second, &other).await, Ok(()));
            second.change(Change::WriterEpoch(Some(9))).await;
            runtime.sleep_until(runtime.now().after(Duration::from_secs(5))).await;
            for node in [&first, &second] {
                assert_eq!(node.members().writers(), BTreeSet::from([4, 9]));
                node.stop();
            }
        });
    }

    #[test]
    fn who_finds_nobody_ends_if_it_was_asked_to() {
        Simulation::new(8).block_on(|runtime| async move {
            let mut config = config("a", &["127.0.0.1:1"]);
            let (node, _) = plain(&runtime, &config, ME).expect("it starts");
            assert_eq!(joined(&node, &config).await, Ok(()));
            config.membership.join.abort_if_cluster_join_fails = true;
            let refused = joined(&node, &config).await.expect_err("nobody is there");
            let expected = "failed to join memberlist cluster on startup: ";
            assert!(refused.starts_with(expected), "{refused}");
            node.stop();
            config.membership.gossip_nodes = 0;
            let refused = plain(&runtime, &config, ME).expect_err("it cannot run");
            assert!(refused.starts_with("memberlist: gossip_nodes"), "{refused}");
        });
    }
}
