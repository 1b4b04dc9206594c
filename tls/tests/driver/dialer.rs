//! The dialer of clients: the HTTP client over it, against a server with TLS.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::future::join;
use http::Method;
use logsvc_http::client::{Client, ClientConfig, ClientRequest, Proxies, Target};
use logsvc_runtime::{Listener, Monotonic, Reader, Runtime, Writer};
use logsvc_tls::{ClientAuth, ClientTls, ClientTlsSettings, TlsDialer};

use crate::client::PATIENCE;
use crate::support::{AUTHORITY, Server, settings};

/// A folder with the files of the authority and of the client.
async fn folder<R: Runtime>(runtime: &R, name: &str) -> PathBuf {
    let driver = runtime.driver_name().replace('/', "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("dialer-{driver}-{name}"));
    runtime.create_dir_all(&folder).await.expect("a folder");
    for (file, text) in [
        ("ca.pem", AUTHORITY.ca_pem.as_str()),
        ("client.pem", &AUTHORITY.client.certificate_pem),
        ("client.key", &AUTHORITY.client.key_pem),
        ("stranger.key", &AUTHORITY.stranger.key_pem),
        ("none.pem", "nothing"),
    ] {
        let path = folder.join(file);
        runtime.replace_file(&path, text.as_bytes().to_vec()).await.expect("written");
    }
    folder
}

type TlsClient<R> = Client<R, TlsDialer<R>>;

async fn client<R: Runtime>(
    runtime: &R,
    settings: &ClientTlsSettings,
    proxies: Proxies,
) -> TlsClient<R> {
    let dialer = TlsDialer::load(runtime.clone(), settings).await.expect("good settings");
    Client::new(runtime.clone(), dialer, ClientConfig { proxies, ..ClientConfig::default() })
}

/// The body of the answer, or the error.
async fn ask<R: Runtime>(client: &TlsClient<R>, url: &str, body: &[u8]) -> Result<Vec<u8>, String> {
    let target = Target::parse(url).expect("a good address");
    let request =
        ClientRequest::new(Method::PUT, target).with_timeout(PATIENCE).with_body(body.to_vec());
    let response = client.send(request).await.map_err(|error| error.to_string())?;
    response.collect(16 << 20).await.map_err(|error| error.to_string())
}

fn url<R: Runtime>(server: &Server<R>, path: &str) -> String {
    format!("https://localhost:{}{path}", server.address.port())
}

pub(crate) async fn requests_go_over_tls<R: Runtime>(runtime: R) {
    let folder = folder(&runtime, "requests").await;
    let server = Server::start(&runtime);
    let settings =
        ClientTlsSettings { ca_file: Some(folder.join("ca.pem")), ..ClientTlsSettings::default() };
    let client = client(&runtime, &settings, Proxies::default()).await;
    for len_bytes in [0, 5, 20_000, 3 << 20] {
        let body: Vec<u8> = (0..len_bytes).map(|place| (place % 251) as u8).collect();
        let answer = ask(&client, &url(&server, "/echo"), &body).await.expect("an answer");
        assert!(answer == body, "{len_bytes} bytes");
    }
    assert_eq!((client.opened_connections(), client.idle_connections()), (1, 1));
    assert_eq!(ask(&client, &url(&server, "/closing"), b"").await.expect("an answer"), b"bye");
    assert_eq!(ask(&client, &url(&server, "/ok"), b"").await.expect("an answer"), b"fine");
    assert_eq!(client.opened_connections(), 2);
    drop(client);
    server.finish().await;
}

pub(crate) async fn servers_have_to_prove_their_name<R: Runtime>(runtime: R) {
    let folder = folder(&runtime, "names").await;
    let server = Server::start(&runtime);
    let ca_file = Some(folder.join("ca.pem"));
    let by_address = format!("https://127.0.0.1:{}/ok", server.address.port());
    let by_name = url(&server, "/ok");
    let plain = ClientTlsSettings::default;
    for (settings, url, is_taken) in [
        (ClientTlsSettings { ca_file: ca_file.clone(), ..plain() }, &by_name, true),
        (ClientTlsSettings { ca_file: ca_file.clone(), ..plain() }, &by_address, false),
        (
            ClientTlsSettings {
                ca_file: ca_file.clone(),
                server_name: "localhost".to_owned(),
                ..plain()
            },
            &by_address,
            true,
        ),
        (
            ClientTlsSettings { ca_file, server_name: "am.example".to_owned(), ..plain() },
            &by_name,
            false,
        ),
        // The authorities of the system do not know the one of this test.
        (plain(), &by_name, false),
        (ClientTlsSettings { insecure_skip_verify: true, ..plain() }, &by_address, true),
    ] {
        let client = client(&runtime, &settings, Proxies::default()).await;
        let answer = ask(&client, url, b"").await;
        match answer {
            Ok(answer) => assert!(is_taken && answer == b"fine", "{settings:?}"),
            Err(error) => {
                assert!(!is_taken && error.contains("cannot connect: "), "{settings:?}: {error}");
                assert!(error.contains("certificate"), "{error}");
            }
        }
    }
    server.finish().await;
}

pub(crate) async fn a_client_may_show_a_certificate<R: Runtime>(runtime: R) {
    let folder = folder(&runtime, "identity").await;
    let mut server_settings = settings();
    server_settings.client_auth = ClientAuth::RequireAndVerify;
    server_settings.client_ca_pem = AUTHORITY.ca_pem.clone().into_bytes();
    let server = Server::start_with(&runtime, &server_settings, |_, _| {});
    let mut settings =
        ClientTlsSettings { ca_file: Some(folder.join("ca.pem")), ..ClientTlsSettings::default() };
    let nobody = client(&runtime, &settings, Proxies::default()).await;
    let error = ask(&nobody, &url(&server, "/ok"), b"").await.expect_err("no certificate");
    assert!(!error.contains("timed out"), "{error}");
    settings.cert_file = Some(folder.join("client.pem"));
    settings.key_file = Some(folder.join("client.key"));
    let somebody = client(&runtime, &settings, Proxies::default()).await;
    assert_eq!(ask(&somebody, &url(&server, "/ok"), b"").await.expect("an answer"), b"fine");
    drop((nobody, somebody));
    server.finish().await;
}

pub(crate) async fn bad_files_are_named<R: Runtime>(runtime: R) {
    let folder = folder(&runtime, "bad").await;
    let path = |name: &str| (!name.is_empty()).then(|| folder.join(name));
    for (ca, cert, key, what, file) in [
        ("missing", "", "", "ca cert", "missing"),
        ("none.pem", "", "", "ca cert", "none.pem"),
        ("", "missing", "client.key", "client cert", "missing"),
        ("", "none.pem", "client.key", "client cert", "none.pem"),
        ("", "client.pem", "", "client cert", "client.pem"),
        ("", "", "client.key", "client key", "client.key"),
        ("", "client.pem", "missing", "client key", "missing"),
        ("", "client.pem", "none.pem", "client key", "none.pem"),
        ("", "client.pem", "stranger.key", "client key", "stranger.key"),
    ] {
        let settings = ClientTlsSettings {
            ca_file: path(ca),
            cert_file: path(cert),
            key_file: path(key),
            ..ClientTlsSettings::default()
        };
        let error = TlsDialer::load(runtime.clone(), &settings).await.err().expect("a bad file");
        let start = format!("error loading {what}: {}: ", folder.join(file).display());
        assert!(error.to_string().starts_with(&start), "{error}");
    }
    let server_name = "no name".to_owned();
    let settings = ClientTlsSettings { server_name, ..ClientTlsSettings::default() };
    let error = TlsDialer::load(runtime, &settings).await.err().expect("a bad name");
    assert_eq!(error.to_string(), "\"no name\" is no name of a TLS server");
}

/// Copies until the end.
async fn pump(mut reader: impl Reader, mut writer: impl Writer) {
    loop {
        let (result, buffer) = reader.read(Vec::with_capacity(16 << 10), Monotonic::NEVER).await;
        if !result.is_ok_and(|count| count > 0)
            || writer.write_all(buffer, Monotonic::NEVER).await.0.is_err()
        {
            let _ = writer.shutdown().await;
            return;
        }
    }
}

pub(crate) async fn tunnels_lead_through_proxies<R: Runtime>(runtime: R) {
    let folder = folder(&runtime, "tunnel").await;
    let server = Server::start(&runtime);
    let any_port = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = runtime.listen(any_port).expect("a listener");
    let proxy = format!("http://{}", listener.local_address().expect("its address"));
    let (spawner, behind) = (runtime.clone(), server.address);
    drop(runtime.spawn(async move {
        while let Ok((mut reader, mut writer, _)) = listener.accept().await {
            let runtime = spawner.clone();
            drop(spawner.spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let read = reader.read(Vec::with_capacity(4096), Monotonic::NEVER).await;
                    head.extend_from_slice(&read.1);
                }
                let expected = format!("CONNECT localhost:{} HTTP/1.1\r\n", behind.port());
                assert!(head.starts_with(expected.as_bytes()));
                let there = runtime.connect(behind, Monotonic::NEVER).await.expect("the server");
                let answer = b"HTTP/1.1 200 Connection established\r\n\r\n".to_vec();
                writer.write_all(answer, Monotonic::NEVER).await.0.expect("it is taken");
                join(pump(reader, there.1), pump(there.0, writer)).await;
            }));
        }
    }));
    let settings =
        ClientTlsSettings { ca_file: Some(folder.join("ca.pem")), ..ClientTlsSettings::default() };
    let client = client(&runtime, &settings, Proxies::always(&proxy).expect("good")).await;
    for body in [&b"hello"[..], &vec![7; 300_000]] {
        let answer = ask(&client, &url(&server, "/echo"), body).await.expect("an answer");
        assert!(answer == body);
    }
    assert_eq!(client.opened_connections(), 1);
    drop(client);
    server.finish().await;
}

/// A port on which nobody speaks TLS.
pub(crate) async fn a_server_without_tls_is_an_error<R: Runtime>(runtime: R) {
    let any_port = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let listener = runtime.listen(any_port).expect("a listener");
    let address = listener.local_address().expect("its address");
    drop(runtime.spawn(async move {
        while let Ok((_reader, mut writer, _)) = listener.accept().await {
            let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec();
            let _ = writer.write_all(answer, Monotonic::NEVER).await;
        }
    }));
    let settings = ClientTlsSettings { insecure_skip_verify: true, ..ClientTlsSettings::default() };
    let client = client(&runtime, &settings, Proxies::default()).await;
    let started = runtime.now();
    let error = ask(&client, &format!("https://localhost:{}/", address.port()), b"").await;
    let error = error.expect_err("no TLS");
    assert!(error.contains("cannot connect: "), "{error}");
    assert!(runtime.now().since(started) < Duration::from_secs(20));
}

pub(crate) async fn files_of_clients_can_be_replaced<R: Runtime>(runtime: R) {
    let folder = folder(&runtime, "replaced").await;
    let mut server_settings = settings();
    server_settings.client_auth = ClientAuth::RequireAndVerify;
    server_settings.client_ca_pem = AUTHORITY.ca_pem.clone().into_bytes();
    let server = Server::start_with(&runtime, &server_settings, |_, _| {});
    let nameless = ClientTlsSettings {
        ca_file: Some(folder.join("ca.pem")),
        server_name: "localhost".to_owned(),
        ..ClientTlsSettings::default()
    };
    let named = ClientTlsSettings {
        cert_file: Some(folder.join("client.pem")),
        key_file: Some(folder.join("client.key")),
        ..nameless.clone()
    };
    let shared = ClientTls::load(&runtime, &nameless).await.expect("good settings");
    let dialer = TlsDialer::sharing(runtime.clone(), &shared);
    let client = Client::new(runtime.clone(), dialer, ClientConfig::default());
    let url = format!("https://127.0.0.1:{}/ok", server.address.port());
    ask(&client, &url, b"").await.expect_err("it shows no certificate");
    let newer = ClientTls::load(&runtime, &named).await.expect("good settings");
    shared.clone().replace(&newer);
    assert_eq!(ask(&client, &url, b"").await.expect("an answer"), b"fine");
    let missing = ClientTlsSettings { ca_file: Some(folder.join("missing.pem")), ..named };
    let error = ClientTls::load(&runtime, &missing).await.expect_err("there is no such file");
    assert!(error.to_string().starts_with("error loading ca cert: "), "{error}");
    drop(client);
    server.finish().await;
}
