//! Builds a configuration of `rustls` for a server from texts.

use std::str::FromStr;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{RootCertStore, ServerConfig};

use crate::any_client::AnyClient;
use crate::suites::CipherSuites;

/// The one protocol that is offered by ALPN.
pub(crate) const ALPN_HTTP_1_1: &[u8] = b"http/1.1";

/// The certificate that a client must show, by the names of Go's `tls.ClientAuthType`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClientAuth {
    /// `NoClientCert`, or nothing: clients are not asked.
    #[default]
    None,
    /// `RequestClientCert`: asked for, but neither needed nor checked.
    Request,
    /// `RequireAnyClientCert`: needed, but not checked.
    RequireAny,
    /// `VerifyClientCertIfGiven`: not needed, but checked.
    VerifyIfGiven,
    /// `RequireAndVerifyClientCert`: needed and checked.
    RequireAndVerify,
}

impl ClientAuth {
    /// Whether certificates are checked against a list of issuers.
    pub fn verifies(self) -> bool {
        matches!(self, ClientAuth::VerifyIfGiven | ClientAuth::RequireAndVerify)
    }
}

impl FromStr for ClientAuth {
    type Err = String;

    fn from_str(text: &str) -> Result<ClientAuth, String> {
        Ok(match text {
            "" | "NoClientCert" => ClientAuth::None,
            "RequestClientCert" => ClientAuth::Request,
            "RequireAnyClientCert" | "RequireClientCert" => ClientAuth::RequireAny,
            "VerifyClientCertIfGiven" => ClientAuth::VerifyIfGiven,
            "RequireAndVerifyClientCert" => ClientAuth::RequireAndVerify,
            _ => return Err(format!("invalid client auth type {text:?}")),
        })
    }
}

/// The oldest version that a client may speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MinVersion {
    /// `VersionTLS12`. `VersionTLS10` and `VersionTLS11` mean the same, because
    /// nothing older is spoken.
    #[default]
    Tls12,
    /// `VersionTLS13`.
    Tls13,
}

impl FromStr for MinVersion {
    type Err = String;

    fn from_str(text: &str) -> Result<MinVersion, String> {
        Ok(match text {
            "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => MinVersion::Tls12,
            "VersionTLS13" => MinVersion::Tls13,
            _ => return Err(format!("TLS version {text:?} not recognized")),
        })
    }
}

/// The settings of a server with TLS.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// The server's certificate and the certificates up to its issuer, as PEM.
    pub certificates_pem: Vec<u8>,
    /// The private key of the first certificate, as PEM: PKCS #8, PKCS #1 or SEC 1.
    pub key_pem: Vec<u8>,
    /// The certificate that clients must show.
    pub client_auth: ClientAuth,
    /// Certificates of the issuers of clients, as PEM.
    pub client_ca_pem: Vec<u8>,
    /// The oldest version.
    pub min_version: MinVersion,
    /// The suites that may be spoken in TLS 1.2.
    pub cipher_suites: CipherSuites,
}

/// Why a server cannot have TLS.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SettingsError {
    /// The certificate or its key is no PEM, of an unknown kind, or they do not belong
    /// together.
    #[error("{0}")]
    Certificate(String),
    /// The list of issuers is no PEM, or empty.
    #[error("{0}")]
    ClientCa(String),
    /// The settings contradict each other.
    #[error("{0}")]
    Other(String),
}

impl TlsSettings {
    /// Checks everything and makes the configuration.
    pub(crate) fn server_config(&self) -> Result<ServerConfig, SettingsError> {
        let certificate = |error: &dyn ToString| SettingsError::Certificate(error.to_string());
        let chain = certificates(&self.certificates_pem).map_err(SettingsError::Certificate)?;
        let key = PrivateKeyDer::from_pem_slice(&self.key_pem).map_err(|error| match error {
            pem::Error::NoItemsFound => SettingsError::Certificate("no private key found".into()),
            other => certificate(&format!("the private key: {other}")),
        })?;
        let provider = Arc::new(CryptoProvider {
            cipher_suites: self.cipher_suites.all(),
            ..ring::default_provider()
        });
        let versions: &[_] = match self.min_version {
            MinVersion::Tls12 if self.cipher_suites.has_tls12() => &[&TLS13, &TLS12],
            MinVersion::Tls12 | MinVersion::Tls13 => &[&TLS13],
        };
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(versions)
            .map_err(|error| SettingsError::Other(error.to_string()))?;
        let builder = match self.client_verifier(&provider)? {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        let mut config =
            builder.with_single_cert(chain, key).map_err(|error| certificate(&error))?;
        config.alpn_protocols = vec![ALPN_HTTP_1_1.to_vec()];
        // Sessions are not resumed, see the crate's header.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    fn client_verifier(
        &self,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Option<Arc<dyn ClientCertVerifier>>, SettingsError> {
        let mandatory =
            matches!(self.client_auth, ClientAuth::RequireAny | ClientAuth::RequireAndVerify);
        match self.client_auth {
            ClientAuth::None => Ok(None),
            ClientAuth::Request | ClientAuth::RequireAny => Ok(Some(Arc::new(AnyClient {
                mandatory,
                algorithms: provider.signature_verification_algorithms,
            }))),
            ClientAuth::VerifyIfGiven | ClientAuth::RequireAndVerify => {
                let mut roots = RootCertStore::empty();
                for issuer in certificates(&self.client_ca_pem).map_err(SettingsError::ClientCa)? {
                    roots
                        .add(issuer)
                        .map_err(|error| SettingsError::ClientCa(error.to_string()))?;
                }
                let builder =
                    WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(provider));
                let builder = if mandatory { builder } else { builder.allow_unauthenticated() };
                let verifier =
                    builder.build().map_err(|error| SettingsError::ClientCa(error.to_string()))?;
                Ok(Some(verifier))
            }
        }
    }
}

/// All certificates of a PEM text; at least one.
pub(crate) fn certificates(text: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    match all {
        Ok(all) if all.is_empty() => Err("no certificate found".to_owned()),
        Ok(all) => Ok(all),
        Err(error) => Err(error.to_string()),
    }
}
