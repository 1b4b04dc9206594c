//! The agreement of client and server on versions, suites and protocols.

use logsvc_runtime::Runtime;
use logsvc_tls::{CipherSuites, MinVersion, TlsSettings};
use rustls::version::{TLS12, TLS13};
use rustls::{AlertDescription, Error, ProtocolVersion};

use crate::client::get;
use crate::support::{Server, client_config, settings};

pub(crate) async fn old_clients_speak_tls_1_2<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    for (versions, agreed) in [
        (&[&TLS12][..], ProtocolVersion::TLSv1_2),
        (&[&TLS13], ProtocolVersion::TLSv1_3),
        (&[&TLS12, &TLS13], ProtocolVersion::TLSv1_3),
    ] {
        let mut client = server.client_with(client_config(versions, None)).await;
        assert_eq!(client.exchange(get("/ok")).await, b"fine");
        assert_eq!(client.tls.protocol_version(), Some(agreed));
    }
    server.finish().await;
}

pub(crate) async fn tls_1_3_can_be_required<R: Runtime>(runtime: R) {
    let settings = TlsSettings { min_version: MinVersion::Tls13, ..settings() };
    let server = Server::start_with(&runtime, &settings, |_, _| {});
    let mut old = server.client_with(client_config(&[&TLS12], None)).await;
    assert!(!old.handshake().await);
    assert_eq!(old.fault, Some(Error::AlertReceived(AlertDescription::ProtocolVersion)));
    let mut new = server.client_with(client_config(&[&TLS13], None)).await;
    assert_eq!(new.exchange(get("/ok")).await, b"fine");
    drop(new);
    server.finish().await;
}

pub(crate) async fn suites_can_be_restricted<R: Runtime>(runtime: R) {
    let only = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    let suites = CipherSuites::named([only]).expect("a good name");
    let settings = TlsSettings { cipher_suites: suites, ..settings() };
    let server = Server::start_with(&runtime, &settings, |_, _| {});
    let mut client = server.client_with(client_config(&[&TLS12], None)).await;
    assert_eq!(client.exchange(get("/ok")).await, b"fine");
    let agreed = client.tls.negotiated_cipher_suite().expect("a suite").suite();
    assert_eq!(format!("{agreed:?}"), only);
    drop(client);
    server.finish().await;
}

pub(crate) async fn only_http_1_1_is_offered<R: Runtime>(runtime: R) {
    let server = Server::start(&runtime);
    let config = |protocols: &[&[u8]]| {
        let mut config = client_config(rustls::ALL_VERSIONS, None);
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        config
    };
    for (protocols, agreed) in [
        (&[][..], None),
        (&[&b"h2"[..], b"http/1.1"], Some(&b"http/1.1"[..])),
        (&[b"http/1.1"], Some(b"http/1.1")),
    ] {
        let mut client = server.client_with(config(protocols)).await;
        assert_eq!(client.exchange(get("/ok")).await, b"fine");
        assert_eq!(client.tls.alpn_protocol(), agreed);
    }
    let mut client = server.client_with(config(&[b"h2"])).await;
    assert!(!client.handshake().await);
    assert_eq!(client.fault, Some(Error::AlertReceived(AlertDescription::NoApplicationProtocol)));
    server.finish().await;
}
