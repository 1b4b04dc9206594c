//! HTTPS, as clients see it: push, query and tail, certificates of clients, and starts
//! that must fail.

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::client::{ClientConfig, ClientConnection};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, RootCertStore, StreamOwned};

use crate::support::client::{connect, read_handshake, read_reply};
use crate::support::node::glommio_works;
use crate::support::{DataDir, Reply, Server, body, entry, now_ns, query, stream};
use crate::syslog;

pub(crate) type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A folder with the files of an authority, a server and two clients, the second of
/// which another authority has issued.
pub(crate) struct Files {
    folder: DataDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Files {
    pub(crate) fn new() -> Files {
        let folder = DataDir::new();
        let files = Files { folder, authority: issuer("ours") };
        let ours = &files.authority;
        files.write("ca.pem", &ours.pem());
        files.issue("server", ours);
        files.issue("client", ours);
        files.issue("stranger", &issuer("another"));
        files
    }

    fn issue(&self, name: &str, issuer: &CertifiedIssuer<'static, KeyPair>) {
        let key = KeyPair::generate().expect("a key");
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let params = CertificateParams::new(names).expect("good names");
        let certificate = params.signed_by(&key, issuer).expect("a certificate");
        self.write(&format!("{name}.pem"), &certificate.pem());
        self.write(&format!("{name}.key"), &key.serialize_pem());
    }

    /// Gives the server another certificate of the same authority.
    pub(crate) fn renew(&self) {
        self.issue("server", &self.authority);
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).expect("the folder can be written");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.path(name).to_str().expect("a path in UTF-8").to_owned()
    }

    /// Starts a server with the certificate of `server` and more flags.
    fn start(&self, data: &DataDir, flags: &[&str]) -> Server {
        Server::start(data.path(), &self.flags(flags).iter().map(|f| &**f).collect::<Vec<_>>())
    }

    fn flags(&self, more: &[&str]) -> Vec<String> {
        let mut flags = vec![
            format!("--server.http-tls-cert-path={}", self.text("server.pem")),
            format!("--server.http-tls-key-path={}", self.text("server.key")),
        ];
        flags.extend(more.iter().map(|flag| (*flag).to_owned()));
        flags
    }

    /// A client that trusts our authority, maybe with a certificate of its own.
    fn connect(&self, server: &Server, identity: Option<&str>) -> BufReader<Stream> {
        self.connect_to(server.address(), identity)
    }

    pub(crate) fn connect_to(&self, address: &str, identity: Option<&str>) -> BufReader<Stream> {
        let mut roots = RootCertStore::empty();
        let ca = CertificateDer::from_pem_file(self.path("ca.pem")).expect("PEM");
        roots.add(ca).expect("an authority");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("there are suites")
            .with_root_certificates(roots);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let chain = CertificateDer::from_pem_file(self.path(&format!("{name}.pem")));
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key")));
                builder
                    .with_client_auth_cert(vec![chain.expect("PEM")], key.expect("PEM"))
                    .expect("they belong together")
            }
        };
        let name = ServerName::try_from("localhost").expect("a good name");
        let tls = ClientConnection::new(Arc::new(config), name).expect("a good configuration");
        let socket = connect(address).expect("a connection");
        BufReader::new(StreamOwned::new(tls, socket))
    }
}

fn issuer(name: &str) -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name.push(DnType::CommonName, name);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed")
}

pub(crate) fn exchange(
    connection: &mut BufReader<Stream>,
    request: &[u8],
) -> std::io::Result<Reply> {
    connection.get_mut().write_all(request)?;
    read_reply(connection, false)
}

pub(crate) fn get(target: &str) -> Vec<u8> {
    format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

fn push(time_ns: i64, line: String) -> Vec<u8> {
    let labels = [("app", "tls"), ("service_name", "tls")];
    let body = body::json(&[stream(&labels, vec![entry(time_ns, line)])]);
    let len_bytes = body.len();
    format!(
        "POST /loki/api/v1/push HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {len_bytes}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// Push, query and tail on one server.
fn works(flags: &[&str]) {
    let (files, data) = (Files::new(), DataDir::new());
    let server = files.start(&data, flags);
    let mut client = files.connect(&server, None);
    let begun_ns = now_ns();
    let mut tail = files.connect(&server, None);
    let target = query::target("/loki/api/v1/tail", &[("query", r#"{app="tls"}"#)]);
    let upgrade = format!(
        "GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    );
    tail.get_mut().write_all(upgrade.as_bytes()).expect("sent");
    assert_eq!(read_handshake(&mut tail).expect("an answer").status, 101);
    // The last line takes many records, of which none fits into an idle buffer.
    let long = "x".repeat(200_000);
    for (number, line) in ["one", "two", &long].into_iter().enumerate() {
        let request = push(begun_ns + number as i64, line.to_owned());
        exchange(&mut client, &request).expect("an answer").expect(204);
    }
    let params = [("query", r#"{app="tls"}"#), ("direction", "forward")];
    let target = query::target("/loki/api/v1/query_range", &params);
    let answer = exchange(&mut client, &get(&target)).expect("an answer").json();
    let values = answer["data"]["result"][0]["values"].as_array().expect("values").clone();
    let lines: Vec<_> = values.iter().map(|value| value[1].as_str().expect("a line")).collect();
    assert!(lines == ["one", "two", &long], "{} lines", lines.len());
    // The tail shows the same; frames of more than 64 KiB have a length of 8 bytes.
    let mut seen = String::new();
    while !seen.contains(&long) {
        let mut head = [0; 2];
        tail.read_exact(&mut head).expect("a frame");
        let length_bytes = match head[1] {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        let mut length = vec![0; length_bytes];
        tail.read_exact(&mut length).expect("a length");
        let length = match length_bytes {
            0 => usize::from(head[1]),
            _ => length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)),
        };
        let mut payload = vec![0; length];
        tail.read_exact(&mut payload).expect("a payload");
        seen.push_str(&String::from_utf8(payload).expect("text"));
    }
    assert!(seen.contains("\"one\"") && seen.contains("\"two\""));
    server.terminate();
    // The stop is said in the words of both protocols.
    let mut rest = Vec::new();
    tail.read_to_end(&mut rest).expect("an end with close_notify");
    assert_eq!(rest.first(), Some(&0x88), "a close frame");
    assert_eq!(client.read_to_end(&mut rest).expect("an end with close_notify"), 0);
    let (status, log) = server.wait();
    assert_eq!(status.code(), Some(0), "{log}");
}

#[test]
fn push_query_and_tail_work_over_io_uring() {
    works(&["--cores", "2"]);
}

#[test]
fn push_query_and_tail_work_over_epoll() {
    works(&["--cores", "2", "--runtime.driver", "epoll"]);
}

#[test]
fn push_query_and_tail_work_over_glommio() {
    if glommio_works() {
        works(&["--cores", "1", "--runtime", "glommio"]);
    }
}

/// Runs curl, if the machine has it: `None` if not.
fn curl(args: &[&str]) -> Option<std::process::Output> {
    match Command::new("curl").args(["--silent", "--show-error"]).args(args).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            eprintln!("SKIPPED: there is no curl on this machine");
            None
        }
        Err(error) => panic!("curl: {error}"),
    }
}

#[test]
fn syslog_is_taken_over_tls() {
    let (files, data, address) = (Files::new(), DataDir::new(), syslog::free_address());
    let flag = format!("--intake.syslog.tls-address={address}");
    let server = files.start(&data, &[&flag, "--cores", "2"]);
    drop(syslog::connect(&address));
    let mut sender = files.connect_to(&address, None);
    let long = "x".repeat(100_000);
    let text = format!("<13>1 - h1 app - - - one\n<13>1 - h1 app - - - {long}\n");
    sender.get_mut().write_all(text.as_bytes()).expect("sent");
    // A sender that does not encrypt is turned away.
    let mut plain = syslog::connect(&address);
    plain.write_all(b"<13>1 - h1 app - - - plain\n").expect("sent");
    let params = [("query", r#"{host="h1"}"#), ("direction", "forward")];
    let target = query::target("/loki/api/v1/query_range", &params);
    let mut client = files.connect(&server, None);
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    let found = loop {
        let reply = exchange(&mut client, &get(&target)).expect("an answer");
        let found = query::texts(&reply.json()["data"]);
        if found.len() >= 2 || std::time::Instant::now() > deadline {
            break found;
        }
    };
    assert_eq!(found, ["one".to_owned(), long]);
    server.stop();
}

#[test]
fn curl_is_content() {
    let (files, data) = (Files::new(), DataDir::new());
    let server = files.start(&data, &["--cores", "1"]);
    let url = format!("https://{}/ready", server.address());
    let ca = files.text("ca.pem");
    for version in [&["--tlsv1.2", "--tls-max", "1.2"][..], &["--tlsv1.3"]] {
        let Some(output) = curl(&[version, &["--cacert", &ca, &url]].concat()) else { return };
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && error.is_empty(), "{version:?}: {error}");
        assert_eq!(output.stdout, b"ready\n");
    }
    let Some(output) = curl(&["--tls-max", "1.1", "--cacert", &ca, &url]) else { return };
    assert!(!output.status.success(), "TLS 1.1 is not spoken");
    let Some(output) = curl(&[&format!("http://{}/ready", server.address())]) else { return };
    assert_eq!(output.stdout, b"Client sent an HTTP request to an HTTPS server.\n");
    server.stop();
}

#[test]
fn certificates_of_clients_are_checked() {
    let (files, data) = (Files::new(), DataDir::new());
    let ca = format!("--server.http-tls-ca-path={}", files.text("ca.pem"));
    let auth = "--server.http-tls-client-auth=RequireAndVerifyClientCert";
    let server = files.start(&data, &["--cores", "2", auth, &ca]);
    let mut good = files.connect(&server, Some("client"));
    exchange(&mut good, &get("/ready")).expect("an answer").expect(200);
    for (identity, alert) in [
        (None, AlertDescription::CertificateRequired),
        (Some("stranger"), AlertDescription::UnknownCA),
    ] {
        let mut bad = files.connect(&server, identity);
        let error = exchange(&mut bad, &get("/ready")).expect_err("it is refused");
        let told = error.get_ref().and_then(|error| error.downcast_ref::<rustls::Error>());
        assert_eq!(told, Some(&rustls::Error::AlertReceived(alert)), "{error}");
    }
    exchange(&mut good, &get("/ready")).expect("an answer").expect(200);
    drop(good);
    let log = server.stop();
    let told = log.lines().filter(|line| line.contains("turned a client away")).count();
    assert_eq!(told, 1, "{log}");
    assert!(log.contains("\"reason\":\"tls_failed\""), "{log}");
}

/// Starts a server that must not come up; returns its log.
fn fails(flags: &[String]) -> String {
    let data = DataDir::new();
    let flags: Vec<&str> = flags.iter().map(|flag| &**flag).collect();
    let (status, log) = Server::launch(data.path(), &flags).wait();
    assert_eq!(status.code(), Some(1), "{log}");
    log
}

#[test]
fn bad_settings_stop_the_start() {
    let files = Files::new();
    let (cert, key) = (files.text("server.pem"), files.text("server.key"));
    let of_client = files.text("client.key");
    let flag = |name: &str, value: &str| format!("--server.{name}={value}");
    let both = |cert: &str, key: &str| {
        vec![flag("http-tls-cert-path", cert), flag("http-tls-key-path", key)]
    };
    let missing = Path::new("/nonexistent/x.pem").display().to_string();
    for (cert, key) in [(&cert, &of_client), (&cert, &cert), (&missing, &key), (&key, &key)] {
        let log = fails(&both(cert, key));
        assert!(log.contains(&format!("failed to load TLS certificate {cert},{key}")), "{log}");
    }
    let mut flags = both(&cert, &key);
    flags.push(flag("http-tls-client-auth", "VerifyClientCertIfGiven"));
    flags.push(flag("http-tls-ca-path", &key));
    let log = fails(&flags);
    assert!(log.contains(&format!("error loading ca cert: {key}")), "{log}");
    for (name, value) in [
        ("tls-min-version", "VersionSSL30"),
        ("tls-cipher-suites", "TLS_NULL"),
        ("http-tls-client-auth", "Sometimes"),
    ] {
        let log = fails(&[both(&cert, &key), vec![flag(name, value)]].concat());
        assert!(log.contains("error generating http tls config: "), "{log}");
    }
}
