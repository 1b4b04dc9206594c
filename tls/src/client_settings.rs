//! Builds a configuration of `rustls` for a client from files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use logsvc_runtime::Runtime;
use rustls::client::WebPkiServerVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore};

use crate::any_server::AnyServer;
use crate::settings::{ALPN_HTTP_1_1, certificates};

/// Longest file of certificates or keys.
const FILE_MAX_BYTES: usize = 4 << 20;

/// How a client speaks TLS. The default trusts the authorities of the system and shows nothing.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ClientTlsSettings {
    /// PEM file of the authorities that are trusted; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// PEM file of one's own certificate, and those up to its issuer.
    pub cert_file: Option<PathBuf>,
    /// PEM file of its key.
    pub key_file: Option<PathBuf>,
    /// The name that certificates of servers have to be for, and that servers are told; empty: the
    /// host that is asked.
    pub server_name: String,
    /// Takes any certificate of a server.
    pub insecure_skip_verify: bool,
}

/// Why a client cannot have TLS.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ClientTlsError {
    /// The file of authorities cannot be read, or holds none.
    #[error("error loading ca cert: {path}: {reason}", path = .path.display())]
    Ca {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file of the certificate cannot be read, holds none, or there is no key for it.
    #[error("error loading client cert: {path}: {reason}", path = .path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The file of the key cannot be read, holds none, or the key belongs to another certificate.
    #[error("error loading client key: {path}: {reason}", path = .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The authorities of the system are needed, and there are none.
    #[error("error loading ca cert: {0}")]
    System(String),
    /// The name of the server is no name.
    #[error("{0:?} is no name of a TLS server")]
    ServerName(String),
}

/// Settings whose files have been read.
pub(crate) struct ClientParts {
    /// `None`: those of the system.
    roots: Option<RootCertStore>,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    pub(crate) server_name: Option<ServerName<'static>>,
    insecure_skip_verify: bool,
}

impl ClientTlsSettings {
    /// Reads all files and checks all settings.
    pub(crate) async fn load<R: Runtime>(
        &self,
        runtime: &R,
    ) -> Result<ClientParts, ClientTlsError> {
        let roots = match &self.ca_file {
            Some(path) => {
                let failed = |reason| ClientTlsError::Ca { path: path.clone(), reason };
                Some(roots_of(&read(runtime, path).await.map_err(failed)?).map_err(failed)?)
            }
            None => None,
        };
        let identity = match (&self.cert_file, &self.key_file) {
            (None, None) => None,
            (Some(cert_file), None) => {
                let reason = "there is no key file for it".to_owned();
                return Err(ClientTlsError::Certificate { path: cert_file.clone(), reason });
            }
            (None, Some(key_file)) => {
                let reason = "there is no certificate file for it".to_owned();
                return Err(ClientTlsError::Key { path: key_file.clone(), reason });
            }
            (Some(cert_file), Some(key_file)) => {
                let failed =
                    |reason| ClientTlsError::Certificate { path: cert_file.clone(), reason };
                let text = read(runtime, cert_file).await.map_err(failed)?;
                let chain = certificates(&text).map_err(failed)?;
                let failed = |reason| ClientTlsError::Key { path: key_file.clone(), reason };
                let text = read(runtime, key_file).await.map_err(failed)?;
                let key = PrivateKeyDer::from_pem_slice(&text)
                    .map_err(|error| failed(error.to_string()))?;
                // Whether they belong together shows when they are used.
                config(&RootCertStore::empty(), Some((chain.clone(), key.clone_key())), false)
                    .map_err(|error| failed(error.to_string()))?;
                Some((chain, key))
            }
        };
        let server_name = match self.server_name.as_str() {
            "" => None,
            name => Some(
                ServerName::try_from(name.to_owned())
                    .map_err(|_| ClientTlsError::ServerName(name.to_owned()))?,
            ),
        };
        let insecure_skip_verify = self.insecure_skip_verify;
        Ok(ClientParts { roots, identity, server_name, insecure_skip_verify })
    }
}

impl ClientParts {
    /// The configuration. The authorities of the system are read if they are needed.
    pub(crate) async fn config<R: Runtime>(&self, runtime: &R) -> io::Result<ClientConfig> {
        let system;
        let roots = match &self.roots {
            Some(roots) => roots,
            None if self.insecure_skip_verify => &RootCertStore::empty(),
            None => {
                system = runtime.offload(system_roots).await?;
                &system
            }
        };
        let identity = self.identity.as_ref().map(|(chain, key)| (chain.clone(), key.clone_key()));
        config(roots, identity, self.insecure_skip_verify)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
    }
}

fn config(
    roots: &RootCertStore,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    skips_verification: bool,
) -> Result<ClientConfig, rustls::Error> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13, &TLS12])?;
    let builder = if skips_verification {
        let algorithms = provider.signature_verification_algorithms;
        builder.dangerous().with_custom_certificate_verifier(Arc::new(AnyServer { algorithms }))
    } else if roots.is_empty() {
        // No server is trusted. `WebPkiServerVerifier` refuses such a list when it is built.
        builder.with_root_certificates(roots.clone())
    } else {
        let roots = Arc::new(roots.clone());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider)
            .build()
            .map_err(|error| rustls::Error::General(error.to_string()))?;
        builder.with_webpki_verifier(verifier)
    };
    let mut config = match identity {
        Some((chain, key)) => builder.with_client_auth_cert(chain, key)?,
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![ALPN_HTTP_1_1.to_vec()];
    Ok(config)
}

async fn read<R: Runtime>(runtime: &R, path: &Path) -> Result<Vec<u8>, String> {
    runtime.read_file(path, FILE_MAX_BYTES).await.map_err(|error| error.to_string())
}

fn roots_of(text: &[u8]) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for authority in certificates(text)? {
        roots.add(authority).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// The authorities that the system trusts. Blocks. Some that are not understood do no harm.
fn system_roots() -> io::Result<RootCertStore> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = match found.errors.first() {
            Some(error) => format!("the system has no trusted certificates: {error}"),
            None => "the system has no trusted certificates".to_owned(),
        };
        return Err(io::Error::new(io::ErrorKind::NotFound, reason));
    }
    Ok(roots)
}
