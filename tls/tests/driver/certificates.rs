//! Certificates of clients.

use logsvc_runtime::Runtime;
use logsvc_tls::{ClientAuth, TlsSettings};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, Error, SupportedProtocolVersion};

use crate::client::get;
use crate::support::{AUTHORITY, Identity, Server, client_config, settings};

fn asking(client_auth: ClientAuth) -> TlsSettings {
    let client_ca_pem = AUTHORITY.ca_pem.clone().into_bytes();
    TlsSettings { client_auth, client_ca_pem, ..settings() }
}

/// The alert that a client gets, or none if its request is answered. In TLS 1.3 a client
/// gets the alert after it has finished its side, when its request is on the way already.
async fn outcome<R: Runtime>(
    server: &Server<R>,
    version: &'static SupportedProtocolVersion,
    identity: Option<&Identity>,
) -> Option<AlertDescription> {
    let mut client = server.client_with(client_config(&[version], identity)).await;
    if client.handshake().await {
        client.send(get("/ok")).await;
        while client.received.len() < 10 && client.receive().await {}
    }
    match client.fault {
        Some(Error::AlertReceived(alert)) => Some(alert),
        Some(other) => panic!("{other}"),
        None => {
            assert_eq!(client.answer().await, b"fine");
            None
        }
    }
}

pub(crate) async fn required_certificates_are_checked<R: Runtime>(runtime: R) {
    let settings = asking(ClientAuth::RequireAndVerify);
    let server = Server::start_with(&runtime, &settings, |_, _| {});
    assert_eq!(outcome(&server, &TLS13, Some(&AUTHORITY.client)).await, None);
    assert_eq!(outcome(&server, &TLS12, Some(&AUTHORITY.client)).await, None);
    let unknown = AlertDescription::UnknownCA;
    assert_eq!(outcome(&server, &TLS13, Some(&AUTHORITY.stranger)).await, Some(unknown));
    assert_eq!(outcome(&server, &TLS12, Some(&AUTHORITY.stranger)).await, Some(unknown));
    let required = AlertDescription::CertificateRequired;
    assert_eq!(outcome(&server, &TLS13, None).await, Some(required));
    assert!(outcome(&server, &TLS12, None).await.is_some());
    assert_eq!(server.service.calls.get(), 2);
    server.finish().await;
}

pub(crate) async fn optional_certificates_are_checked<R: Runtime>(runtime: R) {
    let settings = asking(ClientAuth::VerifyIfGiven);
    let server = Server::start_with(&runtime, &settings, |_, _| {});
    assert_eq!(outcome(&server, &TLS13, Some(&AUTHORITY.client)).await, None);
    assert_eq!(outcome(&server, &TLS13, None).await, None);
    let unknown = AlertDescription::UnknownCA;
    assert_eq!(outcome(&server, &TLS13, Some(&AUTHORITY.stranger)).await, Some(unknown));
    server.finish().await;
}

pub(crate) async fn any_certificate_may_do<R: Runtime>(runtime: R) {
    for (client_auth, without) in [
        (ClientAuth::Request, None),
        (ClientAuth::RequireAny, Some(AlertDescription::CertificateRequired)),
    ] {
        let server = Server::start_with(&runtime, &asking(client_auth), |_, _| {});
        for version in [&TLS12, &TLS13] {
            assert_eq!(outcome(&server, version, Some(&AUTHORITY.stranger)).await, None);
        }
        assert_eq!(outcome(&server, &TLS13, None).await, without);
        server.finish().await;
    }
}
