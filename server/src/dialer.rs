//! How the server opens connections to others: plain, and with TLS in builds that have it.

use logsvc_runtime::Runtime;

#[cfg(feature = "tls")]
pub(crate) type Dialer<R> = logsvc_tls::TlsDialer<R>;
#[cfg(not(feature = "tls"))]
pub(crate) type Dialer<R> = logsvc_runtime::PlainDialer<R>;

/// A dialer that trusts the authorities of the system and shows no certificate.
///
/// # Errors
/// The text of the failure.
#[cfg(feature = "tls")]
pub(crate) async fn dialer<R: Runtime>(runtime: &R) -> Result<Dialer<R>, String> {
    let settings = logsvc_tls::ClientTlsSettings::default();
    Dialer::load(runtime.clone(), &settings).await.map_err(|error| error.to_string())
}

/// A dialer for plain connections.
///
/// # Errors
/// None.
#[cfg(not(feature = "tls"))]
pub(crate) async fn dialer<R: Runtime>(runtime: &R) -> Result<Dialer<R>, String> {
    Ok(Dialer::new(runtime.clone()))
}
