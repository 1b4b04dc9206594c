//! Flushing, and ending the node or its ingester over HTTP.

use crate::support::{DataDir, Server, entry, now_ns, stream};

fn push(server: &Server, time_ns: i64, line: &str) {
    server.client().push(&[stream(&[("app", "shutdown")], vec![entry(time_ns, line)])]);
}

fn status(server: &Server, method: &str, target: &str) -> (u16, String) {
    let reply = server.client().request(method, target, &[], None);
    (reply.status, reply.text())
}

fn seals(server: &Server) -> f64 {
    server.metric("logsvc_seals_total")
}

fn segments(server: &Server) -> f64 {
    server.metric("logsvc_segments")
}

#[test]
fn a_flush_has_written_segments_when_it_answers() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    for (method, target) in [("POST", "/flush"), ("GET", "/flush"), ("POST", "/flush/tenant")] {
        let before = seals(&server);
        push(&server, now_ns(), "a line");
        assert_eq!(status(&server, method, target), (204, String::new()));
        assert!(seals(&server) > before, "{method} {target}");
    }
    assert_eq!(status(&server, "DELETE", "/flush").0, 405);
    let (code, text) = status(&server, "POST", "/flush/tenant?streams=%7B");
    assert_eq!(code, 400);
    assert!(text.starts_with("parse error") && text.ends_with('\n'), "{text}");
    server.stop();
}

#[test]
fn a_prepared_node_writes_segments_when_it_stops() {
    let folder = DataDir::new();
    let path = "/ingester/prepare_shutdown";
    let args = ["--cores", "2", "--ingester.flush-on-shutdown=false"];
    let server = Server::start(folder.path(), &args);
    assert_eq!(status(&server, "GET", path), (200, "unset".to_owned()));
    push(&server, now_ns(), "stays in the log");
    server.stop();
    let server = Server::start(folder.path(), &args);
    assert_eq!(segments(&server), 0.0, "an ordinary stop leaves entries in the log");
    for _ in 0..2 {
        assert_eq!(status(&server, "POST", path), (204, String::new()));
        assert_eq!(status(&server, "GET", path), (200, "set".to_owned()));
    }
    server.stop();
    let server = Server::start(folder.path(), &args);
    assert_eq!(segments(&server), 1.0);
    assert_eq!(status(&server, "GET", path), (200, "set".to_owned()), "survives a restart");
    for _ in 0..2 {
        assert_eq!(status(&server, "DELETE", path), (204, String::new()));
        assert_eq!(status(&server, "GET", path), (200, "unset".to_owned()));
    }
    server.stop();
}

#[test]
fn a_shut_down_ingester_takes_no_entries() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    push(&server, now_ns(), "a line");
    assert_eq!(status(&server, "POST", "/ingester/flush_shutdown"), (204, String::new()));
    assert_eq!(seals(&server), 1.0);
    let body = br#"{"streams":[{"stream":{"a":"b"},"values":[["1","x"]]}]}"#;
    let refused = server.client().push_json(body);
    assert_eq!((refused.status, refused.text()), (503, "empty ring\n".to_owned()));
    let (code, text) = status(&server, "GET", "/ready");
    assert_eq!(code, 503);
    assert!(text.starts_with("Some services are not Running:"), "{text}");
    let again = (503, "Ingester is stopping or already stopped.".to_owned());
    assert_eq!(status(&server, "GET", "/ingester/shutdown"), again);
    server.stop();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    assert_eq!(status(&server, "POST", "/ingester/shutdown?flush=F").0, 204);
    let (exit, _) = server.wait();
    assert!(exit.success(), "{exit}");
}
