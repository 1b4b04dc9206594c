//! Requests go on after the process is killed: while they remove entries, and while log files are
//! written.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use logsvc_testkit::Rng;

use super::*;
use crate::support::random::seed;
use crate::support::{DataDir, entry, stream};

const KILLS: u32 = 10;
const STREAMS: usize = 200;
/// Each stream has an entry in each of these parts.
const PARTS: usize = 20;
const PART_S: i64 = 600;
const ALL: &str = r#"{app="kill"}"#;

/// Requests are due at once.
const AT_ONCE: &str = "--compactor.delete-request-cancel-period=1ms";

fn percent_of(status: &str) -> u32 {
    match status {
        "received" => 0,
        "processed" => 100,
        other => {
            let number = other.strip_suffix("% Complete").map(str::parse);
            number.expect("percent").expect("a number")
        }
    }
}

/// The lines that a query shows, each once.
fn shown(client: &mut Client, start_s: i64, end_s: i64) -> BTreeSet<String> {
    let (start, end) = (start_s.to_string(), end_s.to_string());
    let params = [("start", start.as_str()), ("end", &end), ("limit", "5000")];
    let lines = query::texts(&query::range(client, ALL, &params));
    let set: BTreeSet<String> = lines.iter().cloned().collect();
    assert_eq!(set.len(), lines.len(), "a line is shown twice");
    set
}

#[test]
fn removal_goes_on_after_kills() {
    let mut random = Rng::new(seed());
    let folder = DataDir::new();
    let first_s = seconds_ago(PARTS as i64 * PART_S + 3600);
    let end_s = first_s + PARTS as i64 * PART_S;
    let server = start(folder.path(), &["--storage.head-max-bytes=8KB"]);
    let mut client = server.client();
    let mut left = BTreeSet::new();
    for part in 0..PARTS {
        let streams = (0..STREAMS).map(|number| {
            let word = if (part + number) % 2 == 0 { "goes" } else { "stays" };
            let line = format!("{word} stream={number} part={part}");
            if word == "stays" {
                left.insert(line.clone());
            }
            let time_ns = (first_s + part as i64 * PART_S) * SECOND_NS + number as i64;
            let name = number.to_string();
            let labels = [("app", "kill"), ("service_name", "kill"), ("pod", name.as_str())];
            stream(&labels, vec![entry(time_ns, line)])
        });
        client.push(&streams.collect::<Vec<_>>());
    }
    let (from, to) = (first_s.to_string(), end_s.to_string());
    let query = format!("{ALL} |= \"goes\"");
    let params = [("query", &*query), ("start", &from), ("end", &to), ("max_interval", "10m")];
    let id = create(&mut client, "fake", &params);
    assert_eq!(shown(&mut client, first_s, end_s), left);
    server.kill();

    let mut percent = 0;
    for kill in 0..KILLS {
        let cores = *random.pick(&["1", "2", "3"]);
        let server = start_with_cores(folder.path(), cores, &[AT_ONCE]);
        let mut client = server.client();
        assert_eq!(shown(&mut client, first_s, end_s), left, "after {kill} kills");
        // The kill comes in the midst of the first part of this start, or of a later one.
        let (parts, delay_us) = (random.below(3) as u32, random.below(50_000));
        let enough = (percent + parts * (100 / PARTS as u32)).min(100);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let status = status_of(&mut client, "fake", &id).expect("it is listed");
            let now = percent_of(&status);
            assert!(now >= percent, "{status} after {percent} %");
            percent = now;
            if percent >= enough {
                break;
            }
            assert!(Instant::now() < deadline, "{status} for too long");
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_micros(delay_us));
        assert_eq!(shown(&mut client, first_s, end_s), left, "before kill {kill}");
        server.kill();
    }
    let server = start(folder.path(), &[AT_ONCE]);
    let mut client = server.client();
    for status in await_processed(&mut client, "fake", &id) {
        assert!(percent_of(&status) >= percent, "{status} after {percent} %");
    }
    assert_eq!(shown(&mut client, first_s, end_s), left);
    let params = [("query", ALL), ("start", &*from), ("end", &*to)];
    let stats = client.get(&query::target("/loki/api/v1/index/stats", &params)).json();
    assert_eq!(stats["entries"], left.len());
    server.stop();
    // The request is lost with its record, and nothing that it has removed comes back.
    std::fs::remove_dir_all(folder.path().join("deletes")).expect("the record is there");
    let server = start(folder.path(), &[]);
    assert_eq!(shown(&mut server.client(), first_s, end_s), left);
}

/// Breaks off the newest log file of a folder within a frame, as a loss of power can do.
fn tear_a_log(data_dir: &Path) {
    let files = std::fs::read_dir(data_dir.join("wal")).expect("a folder");
    let logs = files.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file());
    let newest = logs.filter(|path| path.extension().is_some()).max_by_key(|path| {
        let data = std::fs::metadata(path).expect("a file");
        data.modified().expect("a time")
    });
    let path = newest.expect("a log file");
    let mut bytes = std::fs::read(&path).expect("a file");
    // Room at the end of the file is zero. The last frame loses its last bytes.
    let end = bytes.iter().rposition(|&byte| byte != 0).expect("frames") + 1;
    bytes[end.saturating_sub(3)..].fill(0);
    std::fs::write(&path, bytes).expect("the file can be written");
}

#[test]
fn logs_that_end_in_the_midst_of_a_frame_hold_up_no_request() {
    const WRITERS: u64 = 16;
    let folder = DataDir::new();
    let first_s = seconds_ago(3600);
    let numbers = AtomicU64::new(0);
    for round in 0..3 {
        let server = start(folder.path(), &[]);
        let pushed = AtomicU64::new(0);
        thread::scope(|scope| {
            for writer in 0..WRITERS {
                let mut client = server.client();
                let (pushed, numbers) = (&pushed, &numbers);
                scope.spawn(move || {
                    let pod = writer.to_string();
                    let labels = [("app", "kill"), ("service_name", "kill"), ("pod", pod.as_str())];
                    loop {
                        let number = numbers.fetch_add(1, Ordering::Relaxed);
                        let word = if number.is_multiple_of(2) { "goes" } else { "stays" };
                        let line = format!("{word} {number} {}", "x".repeat(500));
                        let time_ns = first_s * SECOND_NS + number as i64;
                        let streams = [stream(&labels, vec![entry(time_ns, line)])];
                        let body = crate::support::body::json(&streams);
                        let headers = [("Content-Type", "application/json")];
                        let path = "/loki/api/v1/push";
                        // The server is killed in the midst of it.
                        let body = Some(body.as_bytes());
                        match client.try_request("POST", path, &headers, body) {
                            Ok(reply) => drop(reply.expect(204)),
                            Err(_) => return,
                        }
                        pushed.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let deadline = Instant::now() + PATIENCE;
            while pushed.load(Ordering::Relaxed) < 200 {
                assert!(Instant::now() < deadline, "the pushes take too long");
                thread::sleep(Duration::from_millis(1));
            }
            server.kill();
        });
        tear_a_log(folder.path());
        let server = start(folder.path(), &[AT_ONCE]);
        let mut client = server.client();
        let log = server.log_text();
        assert!(log.contains("cut off a torn tail"), "{log}");
        let before = shown(&mut client, first_s - 1, first_s + 1);
        let gone = format!("{ALL} |= \"goes\"");
        let id = delete(&mut client, "fake", &gone, first_s - 1, first_s + 1);
        let left: BTreeSet<String> =
            before.iter().filter(|line| line.starts_with("stays")).cloned().collect();
        assert!(left.len() < before.len());
        assert_eq!(shown(&mut client, first_s - 1, first_s + 1), left, "round {round}");
        await_processed(&mut client, "fake", &id);
        assert_eq!(shown(&mut client, first_s - 1, first_s + 1), left, "round {round}");
        let found = files_with(folder.path(), "goes ");
        assert_eq!(found, [""; 0], "round {round}");
        server.kill();
    }
}
