//! TLS of what a node tells others and etcd: the files of its clients, which all cores share, and gossip.
//!
//! Guarantees: files are read before the node joins. Those that are read again hold for connections that
//! begin from then on.
//!
//! What can go wrong: files that are missing or do not fit together, which [`Encryption::load`] tells.

use logsvc_membership::driver::{self, StartError};
use logsvc_membership::membership::Membership;
use logsvc_membership::settings::Settings;
use logsvc_membership::vitals::Vitals;
use logsvc_runtime::Runtime;

use crate::config::ClusterTls;
use crate::dialer::Dialer;
use crate::node::NodeState;

#[cfg(feature = "tls")]
pub(crate) use spoken::Encryption;
#[cfg(not(feature = "tls"))]
pub(crate) use unspoken::Encryption;

#[cfg(feature = "tls")]
mod spoken {
    use std::path::PathBuf;
    use std::sync::OnceLock;

    use logsvc_tls::{ClientTls, ClientTlsSettings, TlsListener};

    use super::*;
    use crate::config::ClientTlsConfig;

    /// See the module. Has nothing of what is plain.
    #[derive(Debug, Default)]
    pub(crate) struct Encryption {
        messages: OnceLock<ClientTls>,
        gossip: OnceLock<ClientTls>,
        etcd: OnceLock<ClientTls>,
    }

    impl Encryption {
        /// Reads the files of clients that encrypt. Where another core was faster its files hold.
        ///
        /// # Errors
        /// A file cannot be used. The text names it, and the section of the settings.
        pub(crate) async fn load<R: Runtime>(
            &self,
            runtime: &R,
            config: &ClusterTls,
        ) -> Result<(), String> {
            let clients = [
                (&self.messages, &config.messages, "ingester_client.grpc_client_config"),
                (&self.gossip, &config.gossip, "memberlist"),
                (&self.etcd, &config.etcd, "common.ring.kvstore.etcd"),
            ];
            for (slot, client, section) in clients {
                if client.is_enabled && slot.get().is_none() {
                    let loaded = ClientTls::load(runtime, &settings(client)).await;
                    let loaded = loaded.map_err(|error| format!("{section}: {error}"))?;
                    slot.get_or_init(|| loaded);
                }
            }
            Ok(())
        }

        /// Takes the files that another one has read.
        pub(crate) fn replace(&self, with: &Encryption) {
            let slots = [
                (&self.messages, &with.messages),
                (&self.gossip, &with.gossip),
                (&self.etcd, &with.etcd),
            ];
            for (slot, newer) in slots {
                if let (Some(current), Some(newer)) = (slot.get(), newer.get()) {
                    current.replace(newer);
                }
            }
        }

        /// Opens connections for messages; `None` if they are plain.
        pub(crate) fn messages<R: Runtime>(&self, runtime: &R) -> Option<Dialer<R>> {
            Some(Dialer::sharing(runtime.clone(), self.messages.get()?))
        }

        /// Opens connections to etcd; `None` if they are plain.
        pub(crate) fn etcd<R: Runtime>(&self, runtime: &R) -> Option<Dialer<R>> {
            Some(Dialer::sharing(runtime.clone(), self.etcd.get()?))
        }

        /// Begins to take part in gossip.
        ///
        /// # Errors
        /// See [`StartError`].
        pub(in super::super) fn start_gossip<R: Runtime>(
            &self,
            runtime: &R,
            node: &NodeState,
            settings: Settings,
            vitals: Vitals,
        ) -> Result<Membership, StartError> {
            let (Some(acceptor), Some(client)) = (node.entrance.tls.of_gossip(), self.gossip.get())
            else {
                return driver::start(runtime, settings, vitals);
            };
            let timeout = settings.packet_dial_timeout;
            let encrypted = |listener| {
                let budget = node.budgets.handshakes.clone();
                TlsListener::new(runtime.clone(), listener, acceptor, timeout, budget)
            };
            let dialer = Dialer::sharing(runtime.clone(), client);
            driver::start_encrypted(runtime, settings, vitals, dialer, encrypted)
        }
    }

    fn settings(config: &ClientTlsConfig) -> ClientTlsSettings {
        let path = |text: &String| (!text.is_empty()).then(|| PathBuf::from(text));
        ClientTlsSettings {
            ca_file: path(&config.ca_path),
            cert_file: path(&config.cert_path),
            key_file: path(&config.key_path),
            server_name: config.server_name.clone(),
            insecure_skip_verify: config.insecure_skip_verify,
        }
    }
}

#[cfg(not(feature = "tls"))]
mod unspoken {
    use super::*;

    /// Everything is plain.
    #[derive(Debug, Default)]
    pub(crate) struct Encryption {}

    impl Encryption {
        /// Does nothing: the settings are checked.
        ///
        /// # Errors
        /// None.
        pub(crate) async fn load<R: Runtime>(
            &self,
            _runtime: &R,
            _config: &ClusterTls,
        ) -> Result<(), String> {
            Ok(())
        }

        /// Does nothing.
        pub(crate) fn replace(&self, _with: &Encryption) {}

        /// None.
        pub(crate) fn messages<R: Runtime>(&self, _runtime: &R) -> Option<Dialer<R>> {
            None
        }

        /// None.
        pub(crate) fn etcd<R: Runtime>(&self, _runtime: &R) -> Option<Dialer<R>> {
            None
        }

        /// Begins to take part in gossip.
        ///
        /// # Errors
        /// See [`StartError`].
        pub(in super::super) fn start_gossip<R: Runtime>(
            &self,
            runtime: &R,
            _node: &NodeState,
            settings: Settings,
            vitals: Vitals,
        ) -> Result<Membership, StartError> {
            driver::start(runtime, settings, vitals)
        }
    }
}
