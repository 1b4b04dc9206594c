//! Starts and stops.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

use crate::support::{
    Client, DataDir, SECOND_NS, Server, body, entry, node, now_ns, query, stream,
};

const SELECTOR: &str = r#"{app="life"}"#;

fn push_line(client: &mut Client, timestamp_ns: i64, line: &str) -> std::io::Result<u16> {
    let body = body::json(&[stream(&[("app", "life")], vec![entry(timestamp_ns, line)])]);
    let headers = [("Content-Type", "application/json")];
    let reply = client.try_request("POST", "/loki/api/v1/push", &headers, Some(body.as_bytes()));
    reply.map(|reply| reply.status)
}

fn stored(server: &Server, start_ns: i64) -> Vec<(i64, String)> {
    let end_ns = start_ns + 60 * SECOND_NS;
    query::all_lines(&mut server.client(), SELECTOR, start_ns, end_ns)
}

/// Stops a server under load; every acknowledged line must be synced, under every policy.
fn stop_under_load(args: &[&str]) {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), args);
    let start_ns = now_ns();
    let (acked, stopping) = (AtomicI64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (address, acked, stopping) = (server.address().to_owned(), &acked, &stopping);
        let pusher = scope.spawn(move || {
            let mut client = Client::new(&address);
            loop {
                let number = acked.load(Ordering::SeqCst);
                match push_line(&mut client, start_ns + number, &format!("n={number}")) {
                    Ok(204) => acked.store(number + 1, Ordering::SeqCst),
                    other => {
                        assert!(stopping.load(Ordering::SeqCst), "refused: {other:?}");
                        return;
                    }
                }
            }
        });
        while acked.load(Ordering::SeqCst) < 50 {
            assert!(!pusher.is_finished(), "the pusher gave up");
            thread::yield_now();
        }
        stopping.store(true, Ordering::SeqCst);
        server.stop();
    });
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let found = stored(&server, start_ns);
    let expected = acked.load(Ordering::SeqCst) as usize;
    // A last push may have been stored although its answer was lost.
    assert!((expected..=expected + 1).contains(&found.len()), "{} of {expected}", found.len());
    for (number, (time_ns, line)) in found.iter().enumerate() {
        assert_eq!((*time_ns, line.as_str()), (start_ns + number as i64, &*format!("n={number}")));
    }
    assert_eq!(server.metric("logsvc_recovery_torn_bytes"), 0.0);
}

#[test]
fn a_stop_under_load_loses_nothing() {
    stop_under_load(&["--cores", "2"]);
    stop_under_load(&["--cores", "1", "--wal.sync", "never"]);
    if node::glommio_works() {
        stop_under_load(&["--cores", "2", "--runtime", "glommio", "--wal.sync", "1h"]);
    }
}

#[test]
fn without_syncs_a_killed_process_still_loses_nothing() {
    for policy in ["never", "10ms", "1h"] {
        let folder = DataDir::new();
        let server = Server::start(folder.path(), &["--cores", "2", "--wal.sync", policy]);
        let start_ns = now_ns();
        let mut client = server.client();
        for number in 0..100 {
            let status = push_line(&mut client, start_ns + number, &format!("n={number}"));
            assert_eq!(status.expect("an answer"), 204);
        }
        let syncs = server.metric("logsvc_wal_syncs_total");
        // Making a file takes one sync for each of the two shards.
        assert!(policy == "10ms" || syncs <= 2.0, "{policy}: {syncs} syncs");
        server.kill();
        let server = Server::start(folder.path(), &["--cores", "3", "--wal.sync", policy]);
        let found = stored(&server, start_ns);
        let expected = (0..100).map(|number| (start_ns + number, format!("n={number}")));
        assert_eq!(found, expected.collect::<Vec<_>>(), "wal.sync = {policy}");
    }
}

#[test]
fn intervals_sync_while_nothing_is_pushed() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1", "--wal.sync", "20ms"]);
    assert_eq!(push_line(&mut server.client(), now_ns(), "x").expect("an answer"), 204);
    let begun = std::time::Instant::now();
    // One sync makes the file, another one follows the push.
    while server.metric("logsvc_wal_syncs_total") < 2.0 {
        assert!(begun.elapsed().as_secs() < 10, "no sync without a further push");
    }
}

#[test]
fn a_folder_in_use_is_refused() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    let start_ns = now_ns();
    let mut client = server.client();
    assert_eq!(push_line(&mut client, start_ns, "first").expect("an answer"), 204);
    let mut second = Server::launch(folder.path(), &["--cores", "2"]);
    assert_eq!(second.await_ready(), None);
    let (status, log) = second.wait();
    assert_eq!(status.code(), Some(1));
    let text = format!("the data folder {} is in use by another process", folder.path().display());
    assert!(log.contains(&text), "{log}");
    // The first one does not notice.
    assert_eq!(push_line(&mut client, start_ns + 1, "second").expect("an answer"), 204);
    server.kill();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    assert_eq!(stored(&server, start_ns).len(), 2);
}

#[test]
fn starts_that_cannot_work_say_why() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "1"]);
    let (host, port) = server.address().split_once(':').expect("host:port");
    let other = DataDir::new();
    for (args, expected, code) in [
        // The port comes twice, so the command line is bad.
        (vec!["--server.http-listen-port", port], "cannot be used multiple times", 2),
        (vec!["--cores", "many"], "is not a whole number", 1),
        (vec!["--wal.sync", "sometimes"], "is neither always nor never", 1),
        (vec!["--config.file", "/nonexistent.yaml"], "/nonexistent.yaml", 1),
        (vec!["--data-dir-typo", "x"], "--data-dir", 2),
    ] {
        let mut refused = Server::launch(other.path(), &args);
        assert_eq!(refused.await_ready(), None, "{args:?}");
        let (status, log) = refused.wait();
        assert_eq!(status.code(), Some(code), "{args:?}: {log}");
        assert!(log.contains(expected), "{args:?}: {log}");
    }
    assert_eq!(host, "127.0.0.1");
    // A folder that another version wrote is left alone.
    std::fs::write(other.path().join("FORMAT"), "logsvc 999\n").expect("a file");
    let mut refused = Server::launch(other.path(), &["--cores", "1"]);
    assert_eq!(refused.await_ready(), None);
    let (status, log) = refused.wait();
    assert_eq!(status.code(), Some(1));
    assert!(log.contains("logsvc 999"), "{log}");
    let unchanged = std::fs::read_to_string(other.path().join("FORMAT")).expect("a file");
    assert_eq!(unchanged, "logsvc 999\n");
}

#[test]
fn settings_come_from_a_file_and_flags_win() {
    let folder = DataDir::new();
    let file = folder.path().join("config.yaml");
    let yaml = "auth_enabled: true\ncores: 1\nlimits_config:\n  max_line_size: 10\n\
                memberlist:\n  bind_port: 1\n";
    std::fs::write(&file, yaml).expect("a file");
    let file = file.to_str().expect("a path of ASCII");
    let data = folder.path().join("data");
    let args = ["--config.file", file, "--limits.max-line-size", "20"];
    let server = Server::start(&data, &args);
    let body = |len| body::json(&[stream(&[("a", "b")], vec![entry(now_ns(), "x".repeat(len))])]);
    let mut client = server.client();
    let headers = [("Content-Type", "application/json"), ("X-Scope-OrgID", "t")];
    let mut push = |len, headers: &[_]| {
        client.request("POST", "/loki/api/v1/push", headers, Some(body(len).as_bytes())).status
    };
    assert_eq!(push(20, &headers), 204);
    assert_eq!(push(21, &headers), 400);
    assert_eq!(push(20, &headers[..1]), 401);
    let log = server.stop();
    assert!(log.contains("memberlist"), "ignored keys are named: {log}");
}
