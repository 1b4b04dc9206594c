//! What the clients of all cores of a node share: whom they trust, and who they are.
//!
//! Guarantees: connections that begin after [`ClientTls::replace`] use the new files; others go on.

use std::fmt;
use std::sync::Arc;

use logsvc_runtime::{Published, Runtime};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::client_settings::{ClientTlsError, ClientTlsSettings};

/// Certificates and trusted authorities that may be replaced while clients use them. Cheap to clone.
#[derive(Clone)]
pub struct ClientTls(Published<Current>);

#[derive(Clone)]
pub(crate) struct Current {
    pub(crate) config: Arc<ClientConfig>,
    /// `None`: the host that is asked.
    pub(crate) server_name: Option<ServerName<'static>>,
}

impl ClientTls {
    /// Reads all files of the settings, and the authorities of the system if no others are named.
    ///
    /// # Errors
    /// See [`ClientTlsError`], which names the file.
    pub async fn load<R: Runtime>(
        runtime: &R,
        settings: &ClientTlsSettings,
    ) -> Result<ClientTls, ClientTlsError> {
        let parts = settings.load(runtime).await?;
        let config = parts.config(runtime).await;
        let config = config.map_err(|error| ClientTlsError::System(error.to_string()))?;
        let current = Current { config: Arc::new(config), server_name: parts.server_name };
        Ok(ClientTls(Published::new(current)))
    }

    /// Takes what another one has read, for all clones of this value.
    pub fn replace(&self, with: &ClientTls) {
        self.0.replace(Current::clone(&with.current()));
    }

    pub(crate) fn current(&self) -> Arc<Current> {
        self.0.get()
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Nothing of the key.
        f.debug_struct("ClientTls").finish_non_exhaustive()
    }
}
