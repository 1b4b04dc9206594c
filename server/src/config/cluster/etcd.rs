//! etcd in place of gossip: `common.ring.kvstore.etcd`.

use std::time::Duration;

use logsvc_membership::etcd::EtcdSettings;
use logsvc_rules::config::Secret;

use super::ClusterTls;

/// What the names of all keys begin with, as in Loki.
const PREFIX: &str = "collectors/";

/// Longest attempt to connect, as in Loki.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The keys as they are written, but for those of TLS.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct EtcdKeys {
    /// `endpoints`.
    pub(crate) endpoints: Vec<String>,
    /// `common.ring.kvstore.prefix`.
    pub(crate) prefix: String,
    /// `dial_timeout`.
    pub(crate) dial_timeout: Duration,
    /// `username`.
    pub(crate) username: String,
    /// `password`.
    pub(crate) password: Secret,
}

impl Default for EtcdKeys {
    fn default() -> EtcdKeys {
        EtcdKeys {
            endpoints: Vec::new(),
            prefix: PREFIX.to_owned(),
            dial_timeout: DIAL_TIMEOUT,
            username: String::new(),
            password: Secret::default(),
        }
    }
}

impl EtcdKeys {
    /// The settings with all that follows from them. Appends a text for each fault. An endpoint with
    /// `https://` enables TLS in `tls`.
    pub(super) fn resolve(
        &self,
        heartbeat_timeout: Duration,
        tls: &mut ClusterTls,
        faults: &mut Vec<String>,
    ) -> EtcdSettings {
        let settings = EtcdSettings {
            endpoints: self.endpoints.clone(),
            prefix: self.prefix.clone(),
            dial_timeout: self.dial_timeout,
            is_secure: tls.etcd.is_enabled,
            username: self.username.clone(),
            password: self.password.0.clone(),
            heartbeat_timeout,
        };
        if let Err(fault) = settings.check() {
            faults.push(format!("common.ring.kvstore.etcd.{fault}"));
        }
        tls.etcd.is_enabled |= self.endpoints.iter().any(|one| one.starts_with("https://"));
        faults.extend(tls.etcd_fault());
        settings
    }
}
