//! Journals as `systemd-journal-upload` sends them: over raw sockets, in chunks, without an end that
//! is known.

use std::io::{BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::support::client::{connect, read_head, read_reply};
use crate::support::{Client, DataDir, SECOND_NS, Server, now_ns, query};

const DAY_NS: i64 = 24 * 3600 * SECOND_NS;

/// A connection on which journals are sent.
struct Uploader {
    connection: BufReader<TcpStream>,
}

impl Uploader {
    fn new(server: &Server) -> Uploader {
        Uploader { connection: BufReader::new(connect(server.address()).expect("a connection")) }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.connection.get_mut().write_all(bytes).expect("the server reads on");
    }

    /// Sends the head that curl sends, and waits for `100 Continue`.
    fn begin(&mut self, path: &str) {
        self.send(
            format!(
                "POST {path} HTTP/1.1\r\nHost: test\r\nAccept: application/vnd.fdo.journal\r\n\
                 Content-Type: application/vnd.fdo.journal\r\nTransfer-Encoding: chunked\r\n\
                 Expect: 100-continue\r\n\r\n"
            )
            .as_bytes(),
        );
        let interim = read_head(&mut self.connection).expect("an interim answer");
        assert_eq!(interim.status, 100);
    }

    fn chunk(&mut self, data: &[u8]) {
        let mut chunk = format!("{:x}\r\n", data.len()).into_bytes();
        chunk.extend_from_slice(data);
        chunk.extend_from_slice(b"\r\n");
        self.send(&chunk);
    }

    /// Ends the body and reads the answer.
    fn end(&mut self) -> (u16, String) {
        self.send(b"0\r\n\r\n");
        let reply = read_reply(&mut self.connection, false).expect("an answer");
        assert_ne!(reply.header("connection"), Some("close"));
        (reply.status, reply.text())
    }
}

fn stored() -> (u16, String) {
    (202, "OK.\n".to_owned())
}

fn entry(time_ns: i64, fields: &str) -> String {
    format!("__CURSOR=s=1\n__REALTIME_TIMESTAMP={}\n_HOSTNAME=web\n{fields}\n\n", time_ns / 1000)
}

fn discarded(server: &Server, reason: &str) -> f64 {
    let labels = format!("{{reason=\"{reason}\",tenant=\"fake\"}}");
    server.metric(&format!("loki_discarded_samples_total{labels}"))
}

fn texts(client: &mut Client, selector: &str) -> Vec<String> {
    let mut texts = query::texts(&query::range(client, selector, &[("limit", "5000")]));
    texts.sort();
    texts
}

/// An entry without a message, one with a priority that is none, one that is far too old, one with
/// the core of a crash, and bytes that are no entry, among good ones.
#[test]
fn each_entry_has_its_own_fate() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let (mut client, mut uploader) = (server.client(), Uploader::new(&server));
    let now = now_ns() - 10 * SECOND_NS;
    let mut body = entry(now, "MESSAGE=one\n_SYSTEMD_UNIT=session-3.scope\nPRIORITY=3\n_PID=7");
    body += &entry(now, "PRIORITY=6");
    body += &entry(now + 1_000_000, "MESSAGE=two\nPRIORITY=9");
    body += &entry(now - 30 * DAY_NS, "MESSAGE=old");
    let mut body = body.into_bytes();
    let crash = entry(now + 2_000_000, "MESSAGE=crashed");
    body.extend(crash.trim_end().bytes());
    body.extend(b"\nCOREDUMP_STACK\n");
    body.extend((3u64 << 20).to_le_bytes());
    body.resize(body.len() + (3 << 20), b'\n');
    body.extend(b"\n\n");
    body.extend(b"__REALTIME_TIMESTAMP=1\nMESSAGE\n\xff\xff\xff\xff\xff\xff\xff\xfflost\n\n");
    body.extend(entry(now + 3_000_000, "MESSAGE=three").bytes());
    for path in ["/upload", "/journald/upload", "/insert/journald/upload"] {
        // The same connection for each.
        uploader.begin(path);
        for piece in body.chunks(50_000) {
            uploader.chunk(piece);
        }
        assert_eq!(uploader.end(), stored(), "{path}");
    }
    // Sent three times, stored once.
    assert_eq!(texts(&mut client, "{host=\"web\"}"), ["crashed", "one", "three", "two"]);
    let labelled = "{host=\"web\",unit=\"session.scope\"} | systemd_unit=\"session-3.scope\" \
                    | detected_level=\"error\" | pid=\"7\"";
    assert_eq!(texts(&mut client, labelled), ["one"]);
    assert_eq!(texts(&mut client, "{host=\"web\"} | priority=\"9\""), ["two"]);
    assert_eq!(discarded(&server, "unreadable"), 6.0);
    assert_eq!(discarded(&server, "greater_than_max_sample_age"), 3.0);
    assert_eq!(server.metric("logsvc_journal_fields_left_out_total"), 3.0);
    let listing = client.get("/loki/api/v1/refusals").json();
    let records = listing["data"].as_array().expect("a list");
    for (reason, entries, text) in [
        // The list has the last text of a reason.
        ("unreadable", 6, "claims to be longer than a field can be"),
        ("greater_than_max_sample_age", 3, "timestamp too old"),
    ] {
        let record: &Value =
            records.iter().find(|record| record["reason"] == reason).expect("it is listed");
        assert_eq!((&record["route"], &record["entries"]), (&"upload".into(), &entries.into()));
        let error = record["error"].as_str().expect("a text");
        assert!(error.contains(text), "{record}");
    }
}

/// The connection breaks in the middle; what is sent again is stored once.
#[test]
fn an_upload_that_breaks_is_sent_again() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let now = now_ns() - 100 * SECOND_NS;
    let entries: Vec<String> = (0..3000)
        .map(|number| {
            entry(now + number * 1_000_000, &format!("MESSAGE={number:04} {}", "x".repeat(800)))
        })
        .collect();
    let body = entries.concat();
    let mut broken = Uploader::new(&server);
    broken.begin("/upload");
    for piece in body.as_bytes()[..body.len() / 2 + 7].chunks(100_000) {
        broken.chunk(piece);
    }
    drop(broken);
    let mut client = server.client();
    // Some are stored before the body has ended.
    let count = |client: &mut Client| texts(client, "{host=\"web\"}").len();
    for _ in 0..200 {
        if count(&mut client) > 1000 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let before = count(&mut client);
    assert!((1001..2000).contains(&before), "{before}");
    let mut again = Uploader::new(&server);
    again.begin("/upload");
    again.chunk(body.as_bytes());
    assert_eq!(again.end(), stored());
    let found = texts(&mut client, "{host=\"web\"}");
    assert_eq!(found.len(), 3000);
    assert!(
        found.iter().enumerate().all(|(number, text)| text.starts_with(&format!("{number:04} ")))
    );
}

/// 200 MB through a server that has less memory for bodies.
#[test]
fn a_whole_journal_takes_bounded_memory() {
    let folder = DataDir::new();
    let limits = ["--cores", "2", "--memory.max-bytes=256MB"];
    let server = Server::start(folder.path(), &limits);
    let mut uploader = Uploader::new(&server);
    uploader.begin("/upload");
    let begun = now_ns() - 3000 * SECOND_NS;
    let mut sent_bytes = 0;
    let mut number = 0;
    while sent_bytes < 200 << 20 {
        let mut piece = String::new();
        while piece.len() < 1 << 20 {
            let text = format!("MESSAGE={number} {}\n_PID={number}", "some text ".repeat(60));
            piece += &entry(begun + number * 1_000_000, &text);
            number += 1;
        }
        uploader.chunk(piece.as_bytes());
        sent_bytes += piece.len();
    }
    assert_eq!(uploader.end(), stored());
    let peak_bytes = server.memory_bytes("VmHWM");
    eprintln!("{number} entries, {sent_bytes} bytes: peak {} MB", peak_bytes >> 20);
    assert!(peak_bytes < 256 << 20, "{} MB", peak_bytes >> 20);
    let lines = "loki_distributor_lines_received_total{tenant=\"fake\"}";
    assert_eq!(server.metric(lines), number as f64);
}

/// What is no journal is told so; a request without a body is an empty journal.
#[test]
fn requests_that_are_no_journals() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    let mut client = server.client();
    let media_type = ("Content-Type", "application/vnd.fdo.journal");
    let reply = client.request("POST", "/upload", &[("Content-Type", "text/plain")], Some(b"x"));
    assert_eq!(reply.expect(415), "Content-Type: application/vnd.fdo.journal is required.\n");
    let packed = [media_type, ("Content-Encoding", "zstd")];
    client.request("POST", "/upload", &packed, Some(b"x")).expect(415);
    // Never 411.
    assert_eq!(client.request("POST", "/upload", &[media_type], None).expect(202), "OK.\n");
    assert_eq!(client.get("/upload").status, 405);
    let cut = entry(now_ns(), "MESSAGE=whole") + "MESSAGE=cut o";
    client.request("POST", "/upload", &[media_type], Some(cut.as_bytes())).expect(202);
    assert_eq!(texts(&mut client, "{host=\"web\"}"), ["whole"]);
    assert_eq!(discarded(&server, "unreadable"), 1.0);
}

/// A tenant over its rate is slowed down, and nothing of it is refused.
#[test]
fn a_tenant_over_its_rate_waits() {
    let folder = DataDir::new();
    let limits =
        ["--cores", "1", "--limits.ingestion-rate-mb=2", "--limits.ingestion-burst-size-mb=1"];
    let server = Server::start(folder.path(), &limits);
    let now = now_ns() - 100 * SECOND_NS;
    let body: String = (0..4000)
        .map(|number| {
            entry(now + number * 1_000_000, &format!("MESSAGE={number:04} {}", "x".repeat(1000)))
        })
        .collect();
    let mut uploader = Uploader::new(&server);
    let begun = std::time::Instant::now();
    uploader.begin("/upload");
    uploader.chunk(body.as_bytes());
    assert_eq!(uploader.end(), stored());
    assert!(begun.elapsed() > Duration::from_millis(1000), "{:?}", begun.elapsed());
    assert_eq!(texts(&mut server.client(), "{host=\"web\"}").len(), 4000);
    let scrape = server.get("/metrics").text();
    assert!(!scrape.contains("reason=\"rate_limited\""), "it was never refused");
}

/// A server that stops tells the host to come again, and keeps what it has stored.
#[test]
fn a_stop_ends_an_upload() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    let mut uploader = Uploader::new(&server);
    uploader.begin("/upload");
    uploader.chunk(entry(now_ns(), "MESSAGE=before").as_bytes());
    server.terminate();
    let reply = read_reply(&mut uploader.connection, false).expect("an answer");
    assert_eq!((reply.status, reply.header("connection")), (503, Some("close")));
    let (status, _) = server.wait();
    assert!(status.success());
}
