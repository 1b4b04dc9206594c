//! Whether the node is one of many, and what it says to the others: `memberlist`, `common.ring`, and
//! the keys of Loki that go with them.
//!
//! [`decide`] makes one value of all of them, [`ClusterConfig`]. There is one if and only if the ring
//! is kept by `memberlist` or `etcd`: because `kvstore.store` says so, or because `memberlist.join_members`
//! names somebody and `kvstore.store` says nothing. Many nodes share a bucket, and a push is answered when
//! its entries are there, so a cluster without a bucket is an error, and so is
//! `wal.durability: local` on a node that stores entries.
//!
//! Nodes encrypt what they tell each other as [`ClusterTls`] says.
//!
//! What can go wrong: addresses that are none, times that contradict each other, a store of the ring
//! that is not supported, and a machine without a name. The address that others use may be left open:
//! then the start looks for it.

mod conflicts;
mod encryption;
mod etcd;
mod keys;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};

use logsvc_membership::etcd::EtcdSettings;
use logsvc_membership::settings::{Settings, SettingsError};
use logsvc_membership::vitals::Vitals;
use logsvc_shards::wal::SyncPolicy;

use super::bucket::{Durability, Environment};
use super::targets::{Part, Parts};
use super::{Config, targets};
pub(super) use conflicts::{grpc_clients, tokens};
#[cfg(feature = "tls")]
pub(crate) use encryption::ClientTlsConfig;
pub(crate) use encryption::ClusterTls;
pub(crate) use keys::ClusterSettings;

/// Where the system has the name of the machine.
const HOST_NAME_FILE: &str = "/proc/sys/kernel/hostname";

/// Settings of a node that is one of many.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClusterConfig {
    /// What the node does.
    pub(crate) parts: Parts,
    /// The name of the node among the members, for people.
    pub(crate) instance_id: String,
    /// The address at which others reach the node. `None`: the start takes one of the machine's.
    pub(crate) advertise_ip: Option<IpAddr>,
    /// The interfaces whose addresses the start looks at, in this order; none: all.
    pub(crate) interface_names: Vec<String>,
    /// The availability zone; empty without one.
    pub(crate) zone: String,
    /// Where the node listens for the others.
    pub(crate) peer_listen: SocketAddr,
    /// What nodes encrypt.
    pub(crate) tls: ClusterTls,
    /// Settings of the gossip. `advertise_addr` is there if `advertise_ip` is.
    pub(crate) membership: Settings,
    /// etcd in place of gossip.
    pub(crate) etcd: Option<EtcdSettings>,
}

/// What cannot be done without a cluster.
const ONE_NODE: &str = "there is one node";

/// Paths of settings.
pub(super) struct Said<'s> {
    /// Those that somebody has given.
    pub(super) given: &'s [&'static str],
    /// Those that are not as they are by default.
    pub(super) changed: &'s [&'static str],
}

fn parts(config: &Config) -> Parts {
    targets::of(&config.target, config.legacy_read_mode)
}

/// Fills in what a cluster has other defaults for.
pub(super) fn prepare(config: &mut Config, given: &[&str]) {
    if !config.cluster_keys.is_cluster() {
        return;
    }
    let stores = parts(config).has(Part::Ingester);
    if !stores || !given.contains(&"wal.durability") {
        config.wal.durability = Durability::Store;
    }
    // A node that stores no entries does not need what is said of its log.
    if !stores {
        config.wal.sync = SyncPolicy::Always;
    }
}

/// Settings of the cluster; `None`: there is one node. Appends a text for each fault, and each key
/// without an effect. `is_bucket_known` is false if nobody can tell whether there is a bucket.
pub(super) fn decide(
    config: &Config,
    said: &Said<'_>,
    is_bucket_known: bool,
    environment: &Environment<'_>,
    errors: &mut Vec<String>,
    ignored: &mut Vec<(String, &'static str)>,
) -> Option<ClusterConfig> {
    let keys = &config.cluster_keys;
    let vain = keys::without_effect(keys, said).into_iter();
    ignored.extend(vain.map(|(path, why)| (path.to_owned(), why)));
    if !keys.is_cluster() {
        return None;
    }
    let mut need = |good: bool, text: &str| {
        if !good {
            errors.push(text.to_owned());
        }
    };
    let store = match keys.is_by_etcd() {
        true => "etcd",
        false => "memberlist, which memberlist.join_members means as well,",
    };
    need(
        config.bucket.is_some() || !is_bucket_known,
        &format!(
            "common.ring.kvstore.store: {store} needs a bucket that all nodes share: set \
             storage.bucket"
        ),
    );
    need(
        config.wal.durability == Durability::Store,
        "wal.durability: local does not do where several nodes share a bucket: entries have to be \
         there before a push is answered, so set store or leave it out",
    );
    need(
        !config.legacy_read_mode || !targets::lists(&config.target, "backend"),
        "CONFIG ERROR: invalid target, cannot run backend target with legacy read mode",
    );
    match keys.resolve(parts(config), keys.tls.with_rules_of(&config.tls), environment) {
        Ok(cluster) => Some(cluster),
        Err(mut faults) => {
            errors.append(&mut faults);
            None
        }
    }
}

impl ClusterSettings {
    /// The settings with all that follows from them.
    fn resolve(
        &self,
        parts: Parts,
        mut tls: ClusterTls,
        environment: &Environment<'_>,
    ) -> Result<ClusterConfig, Vec<String>> {
        let mut faults = tls.faults();
        let heartbeat_timeout = self.gossip.heartbeat_timeout;
        let etcd =
            self.is_by_etcd().then(|| self.etcd.resolve(heartbeat_timeout, &mut tls, &mut faults));
        let addresses = [
            ("common.ring.instance_addr", &self.ring_instance_addr),
            ("common.instance_addr", &self.instance_addr),
            ("memberlist.advertise_addr", &self.advertise_addr),
        ];
        let mut advertised = addresses.map(|(path, text)| match text.as_str() {
            "" => None,
            text => ip(path, text, &mut faults).filter(|ip| {
                let is_one = !ip.is_unspecified();
                if !is_one {
                    faults.push(format!("{path}: others cannot use the address {ip}"));
                }
                is_one
            }),
        });
        let mut membership = self.gossip.clone();
        let bound = self.bind_addr.iter();
        membership.bind_addr =
            bound.filter_map(|text| ip("memberlist.bind_addr", text, &mut faults)).collect();
        membership.join.max_join_retries = u32::try_from(self.max_join_retries).unwrap_or(u32::MAX);
        let listened = membership.bind_addr.iter().copied().chain([self.peer_listen.ip()]);
        let specific = listened.into_iter().find(|ip| !ip.is_unspecified());
        let [_, _, of_gossip] = advertised;
        let advertise_ip = advertised.iter_mut().find_map(Option::take).or(specific);
        membership.advertise_addr = of_gossip.or(advertise_ip);

        // An address that is looked for later changes nothing about the other settings.
        let stand_in = membership.advertise_addr.or(Some(IpAddr::from([127, 0, 0, 1])));
        let complete = Settings { advertise_addr: stand_in, ..membership.clone() };
        if let Err(error) = complete.check() {
            faults.push(settings_fault(&error));
        }
        let instance_id = self.instance_id(environment);
        let zone = [&self.ring_zone, &self.ingester_zone].into_iter().find(|zone| !zone.is_empty());
        let zone = zone.cloned().unwrap_or_default();
        if instance_id.is_empty() {
            faults.push("common.ring.instance_id: set it, this machine has no name".to_owned());
        } else {
            let mut vitals = Vitals::joining(instance_id.as_str(), 1..=1);
            vitals.zone.clone_from(&zone);
            if let Err(error) = vitals.check() {
                faults.push(format!("common.ring: {error}"));
            }
        }
        if self.peer_listen.port() == 0 {
            faults.push("server.grpc_listen_port: must not be 0 where there are others".to_owned());
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let names = [&self.ring_interface_names, &self.interface_names];
        let names = names.into_iter().find(|names| !names.is_empty());
        Ok(ClusterConfig {
            parts,
            instance_id,
            advertise_ip,
            interface_names: names.cloned().unwrap_or_default(),
            zone,
            peer_listen: self.peer_listen,
            tls,
            membership,
            etcd,
        })
    }

    /// The name of the node: the one that is set, or else the machine's. Empty if that has none.
    fn instance_id(&self, environment: &Environment<'_>) -> String {
        let set = [&self.instance_id, &self.node_name].into_iter().find(|name| !name.is_empty());
        if let Some(name) = set {
            return name.clone();
        }
        let of_system =
            (environment.file)(std::path::Path::new(HOST_NAME_FILE)).unwrap_or_default();
        match of_system.trim() {
            // What the kernel says of a machine that nobody has named.
            "" | "(none)" => String::new(),
            name => name.to_owned(),
        }
    }
}

/// The fault with the section whose keys it is about.
fn settings_fault(error: &SettingsError) -> String {
    let text = error.to_string();
    let section = if text.starts_with("heartbeat_") { "common.ring" } else { "memberlist" };
    format!("{section}: {text}")
}

/// Reads an IP address, with or without the brackets of IPv6.
fn ip(path: &str, text: &str, faults: &mut Vec<String>) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text);
    match bare {
        "localhost" => Some(IpAddr::from([127, 0, 0, 1])),
        bare => match bare.parse::<IpAddr>() {
            Ok(ip) => Some(ip.to_canonical()),
            Err(_) => {
                faults.push(format!("{path}: {text:?} is not an IP address such as 10.0.0.7"));
                None
            }
        },
    }
}
