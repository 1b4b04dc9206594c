//! TLS between the nodes of a cluster: of the listener for other nodes (`server.grpc_tls_config`), of
//! messages to them (`ingester_client.grpc_client_config`), of gossip (`memberlist`), and of requests to
//! etcd in place of it (`common.ring.kvstore.etcd`).
//!
//! Guarantee: all nodes have one configuration, so one that cannot work between two such nodes is an
//! error at the start, and not a cluster whose nodes do not hear each other.

use super::super::tls::TlsConfig;

/// The listener's section, in texts for operators.
const LISTENER: &str = "server.grpc_tls_config";
/// The section of messages to others.
const MESSAGES: &str = "ingester_client.grpc_client_config";

/// The section of requests to etcd.
const ETCD: &str = "common.ring.kvstore.etcd";

/// What nodes encrypt of what they tell each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClusterTls {
    /// The listener for other nodes.
    pub(crate) listener: TlsConfig,
    /// Messages to other nodes.
    pub(crate) messages: ClientTlsConfig,
    /// Gossip, in both directions.
    pub(crate) gossip: ClientTlsConfig,
    /// Requests to etcd.
    pub(crate) etcd: ClientTlsConfig,
}

/// How a client speaks TLS. An empty text is a setting that is not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClientTlsConfig {
    /// Whether it does.
    pub(crate) is_enabled: bool,
    /// File with its certificate and the certificates up to the issuer.
    pub(crate) cert_path: String,
    /// File with the private key.
    pub(crate) key_path: String,
    /// File with the certificates of the issuers that are trusted.
    pub(crate) ca_path: String,
    /// The name that certificates have to be for.
    pub(crate) server_name: String,
    /// Whether any certificate is good.
    pub(crate) insecure_skip_verify: bool,
}

impl ClientTlsConfig {
    fn has_certificate(&self) -> bool {
        !self.cert_path.is_empty() && !self.key_path.is_empty()
    }

    fn is_half(&self) -> bool {
        self.cert_path.is_empty() != self.key_path.is_empty()
    }
}

impl ClusterTls {
    /// The settings with the versions and suites of the HTTP server.
    pub(super) fn with_rules_of(&self, http: &TlsConfig) -> ClusterTls {
        let listener = TlsConfig {
            min_version: http.min_version.clone(),
            cipher_suites: http.cipher_suites.clone(),
            ..self.listener.clone()
        };
        ClusterTls { listener, ..self.clone() }
    }

    /// How the listeners of gossip speak TLS: others have to show a certificate, too.
    pub(crate) fn gossip_listener(&self) -> TlsConfig {
        let gossip = &self.gossip;
        if !gossip.is_enabled {
            return TlsConfig::default();
        }
        let (auth, ca) = match gossip.insecure_skip_verify {
            true => ("RequireAnyClientCert", String::new()),
            false => ("RequireAndVerifyClientCert", gossip.ca_path.clone()),
        };
        TlsConfig {
            cert_file: gossip.cert_path.clone(),
            key_file: gossip.key_path.clone(),
            client_auth_type: auth.to_owned(),
            client_ca_file: ca,
            min_version: self.listener.min_version.clone(),
            cipher_suites: self.listener.cipher_suites.clone(),
        }
    }

    /// All files that are named.
    pub(crate) fn files(&self) -> [&str; 12] {
        let (listener, messages, gossip) = (&self.listener, &self.messages, &self.gossip);
        let etcd = &self.etcd;
        [
            &listener.cert_file,
            &listener.key_file,
            &listener.client_ca_file,
            &messages.cert_path,
            &messages.key_path,
            &messages.ca_path,
            &gossip.cert_path,
            &gossip.key_path,
            &gossip.ca_path,
            &etcd.cert_path,
            &etcd.key_path,
            &etcd.ca_path,
        ]
    }

    /// A text for each fault that can be seen without the files, besides those of the listener alone.
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut need = |good: bool, text: String| {
            if !good {
                faults.push(text);
            }
        };
        let (listener, messages, gossip) = (&self.listener, &self.messages, &self.gossip);
        let is_spoken = cfg!(feature = "tls");
        need(
            is_spoken || !messages.is_enabled,
            format!("{MESSAGES}.tls_enabled: this build has no TLS"),
        );
        need(
            is_spoken || !gossip.is_enabled,
            "memberlist.tls_enabled: this build has no TLS".to_owned(),
        );
        need(
            !listener.is_on() || messages.is_enabled,
            format!(
                "{LISTENER}: nodes would not reach each other, since {MESSAGES}.tls_enabled is false: \
                 all nodes have one configuration, so set both or neither"
            ),
        );
        need(
            !messages.is_enabled || listener.is_on(),
            format!(
                "{MESSAGES}.tls_enabled: needs {LISTENER}.cert_file and key_file: all nodes have one \
                 configuration, so nobody would answer with TLS"
            ),
        );
        need(
            !messages.is_half(),
            format!("{MESSAGES}: tls_cert_path and tls_key_path go together"),
        );
        let asks_for_one = listener.client_auth_type.starts_with("Require");
        need(
            !(listener.is_on() && messages.is_enabled && asks_for_one)
                || messages.has_certificate()
                || messages.is_half(),
            format!(
                "{LISTENER}.client_auth_type: {} needs {MESSAGES}.tls_cert_path and tls_key_path: all \
                 nodes have one configuration, so none would be let in",
                listener.client_auth_type
            ),
        );
        need(
            !gossip.is_enabled || gossip.has_certificate(),
            "memberlist.tls_enabled: needs tls_cert_path and tls_key_path: each node shows its \
             certificate to the others"
                .to_owned(),
        );
        need(
            !gossip.is_enabled || gossip.insecure_skip_verify || !gossip.ca_path.is_empty(),
            "memberlist.tls_enabled: needs tls_ca_path, by which nodes know each other, or \
             tls_insecure_skip_verify"
                .to_owned(),
        );
        faults
    }

    /// The fault of what is said of etcd, if there is one.
    pub(super) fn etcd_fault(&self) -> Option<String> {
        if self.etcd.is_enabled && !cfg!(feature = "tls") {
            return Some(format!("{ETCD}.tls_enabled: this build has no TLS"));
        }
        let is_half = self.etcd.is_half();
        is_half.then(|| format!("{ETCD}: tls_cert_path and tls_key_path go together"))
    }

    /// Why a setting at this path does nothing, if it does: TLS is not enabled.
    pub(super) fn reason_without_effect(&self, path: &str) -> Option<&'static str> {
        let rows = [(&self.messages, MESSAGES), (&self.gossip, "memberlist"), (&self.etcd, ETCD)];
        let is_vain = rows.into_iter().any(|(client, section)| {
            let key = path.strip_prefix(section).and_then(|rest| rest.strip_prefix(".tls_"));
            !client.is_enabled && key.is_some_and(|key| key != "enabled")
        });
        is_vain.then_some("tls_enabled is false")
    }
}
