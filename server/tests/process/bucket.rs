//! A node with a bucket, which is a folder here: what is in the bucket outlives the data folder,
//! and a bucket has one writer.

mod kept;
mod tools;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::{Client, DataDir, SECOND_NS, Server, entry, now_ns, query, stream};

/// Longest time until something happens that the server does on its own.
const PATIENCE: Duration = Duration::from_secs(60);

/// The bucket of a test and its data folders.
struct Place(DataDir);

impl Place {
    fn new() -> Place {
        Place(DataDir::new())
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn bucket_flag(&self, name: &str) -> String {
        format!("--storage.bucket=file://{}", self.folder(name).display())
    }

    /// A server with the bucket `bucket`.
    fn launch(&self, data: &str, more: &[&str]) -> Server {
        let bucket = self.bucket_flag("bucket");
        Server::launch(&self.folder(data), &[&["--cores", "2", &bucket][..], more].concat())
    }

    fn start(&self, data: &str, more: &[&str]) -> Server {
        let mut server = self.launch(data, more);
        let ready = server.await_ready();
        assert!(ready.is_some(), "not ready: {}", server.log_text());
        server
    }

    fn remove(&self, data: &str) {
        std::fs::remove_dir_all(self.folder(data)).expect("the data folder is there");
    }
}

/// Where the entries of a test begin.
fn base_ns() -> i64 {
    now_ns() - 600 * SECOND_NS
}

/// Lines of one writer, `numbers` of them, each at a time of its own.
fn push(client: &mut Client, writer: &str, base: i64, numbers: std::ops::Range<i64>) {
    let entries = numbers.map(|number| entry(base + number, format!("{writer} {number}")));
    client.push(&[stream(&[("app", "bucket"), ("writer", writer)], entries.collect())]);
}

/// The numbers of the lines of a writer.
#[track_caller]
fn numbers(server: &Server, writer: &str, base: i64) -> Vec<i64> {
    let selector = format!("{{app=\"bucket\", writer=\"{writer}\"}}");
    let lines = query::all_lines(&mut server.client(), &selector, base, now_ns() + SECOND_NS);
    let number = |(time_ns, line): (i64, String)| {
        let number = time_ns - base;
        assert_eq!(line, format!("{writer} {number}"));
        number
    };
    lines.into_iter().map(number).collect()
}

#[track_caller]
fn insist(server: &Server, writer: &str, base: i64, count: i64) {
    let found = numbers(server, writer, base);
    assert_eq!(found, (0..count).collect::<Vec<_>>(), "lines of {writer}");
}

#[track_caller]
fn flush(server: &Server) {
    server.client().request("POST", "/flush", &[], None).expect(204);
}

/// How many files below a folder have names that end so.
fn files(folder: &Path, end: &str) -> usize {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let count = |path: PathBuf| {
        if path.is_dir() {
            files(&path, end)
        } else {
            usize::from(path.to_string_lossy().ends_with(end))
        }
    };
    entries.flatten().map(|entry| count(entry.path())).sum()
}

/// Whether the disk is so full that the server lets files of segments go that the bucket has.
fn disk_is_low(server: &Server) -> bool {
    let (size, free) =
        (server.metric("logsvc_disk_size_bytes"), server.metric("logsvc_disk_free_bytes"));
    let is_low = free < (size / 20.0).min(5e9);
    if is_low {
        println!("the disk has {free} of {size} bytes left: files are not looked at");
    }
    is_low
}

#[test]
fn flushed_and_stopped_entries_outlive_the_data_folder() {
    let place = Place::new();
    let base = base_ns();
    let server = place.start("one", &[]);
    push(&mut server.client(), "a", base, 0..500);
    flush(&server);
    assert!(server.metric("logsvc_bucket_uploads_total") > 0.0);
    assert!(server.metric("logsvc_bucket_upload_bytes_total") > 0.0);
    assert_eq!(server.metric("logsvc_bucket_backlog_segments"), 0.0);
    assert_eq!(server.metric("logsvc_bucket_backlog_bytes"), 0.0);
    let local_bytes = server.metric("logsvc_bucket_local_file_bytes");
    let uploaded_bytes = server.metric("logsvc_bucket_upload_bytes_total");
    assert!(
        local_bytes == uploaded_bytes || disk_is_low(&server),
        "{local_bytes} {uploaded_bytes}"
    );
    assert_eq!(server.metric("logsvc_bucket_failures_total"), 0.0);
    assert_eq!(server.metric("logsvc_bucket_failing_seconds"), 0.0);
    server.kill();
    place.remove("one");

    let server = place.start("two", &[]);
    insist(&server, "a", base, 500);
    push(&mut server.client(), "a", base, 500..700);
    push(&mut server.client(), "b", base, 0..10);
    server.stop();
    place.remove("two");

    let server = place.start("three", &[]);
    insist(&server, "a", base, 700);
    insist(&server, "b", base, 10);
    server.stop();
}

#[test]
fn with_the_log_in_the_bucket_every_acknowledged_entry_outlives_the_data_folder() {
    const WRITERS: [&str; 4] = ["a", "b", "c", "d"];
    const LINES: i64 = 5;
    let place = Place::new();
    let base = base_ns();
    let mut acknowledged = [0; WRITERS.len()];
    for round in 0..4 {
        let data = format!("data-{round}");
        let server = place.start(&data, &["--wal.durability=store"]);
        for (writer, &count) in WRITERS.iter().zip(&acknowledged) {
            insist(&server, writer, base, count);
        }
        if round == 3 {
            server.stop();
            break;
        }
        let address = server.address().to_owned();
        thread::scope(|scope| {
            for (writer, acknowledged) in WRITERS.iter().zip(&mut acknowledged) {
                let address = address.as_str();
                scope.spawn(move || {
                    let mut client = Client::new(address);
                    for _ in 0..10 {
                        push(&mut client, writer, base, *acknowledged..*acknowledged + LINES);
                        *acknowledged += LINES;
                    }
                });
            }
        });
        server.kill();
        place.remove(&data);
    }
}

#[test]
fn a_bucket_has_one_writer() {
    let place = Place::new();
    let base = base_ns();
    let first = place.start("first", &[]);
    push(&mut first.client(), "a", base, 0..100);
    flush(&first);
    let second = place.start("second", &[]);
    insist(&second, "a", base, 100);
    // The first one has not noticed: it takes entries, and cannot bring them into the bucket.
    push(&mut first.client(), "a", base, 100..110);
    let flushed = first.client().try_request("POST", "/flush", &[], None);
    assert!(!matches!(&flushed, Ok(reply) if reply.status == 204), "{flushed:?}");
    let (status, log) = first.wait();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("another process, 00000001, has taken over"), "{log}");
    insist(&second, "a", base, 100);
    push(&mut second.client(), "b", base, 0..10);
    flush(&second);
    let (status, log) = place.launch("first", &[]).wait();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("has entries that are not in the bucket"), "{log}");
    // The start that was refused has left the second one alone.
    push(&mut second.client(), "b", base, 10..20);
    flush(&second);
    second.stop();
    let third = place.start("third", &[]);
    insist(&third, "a", base, 100);
    insist(&third, "b", base, 20);
    third.stop();
}

#[test]
fn a_folder_whose_entries_are_all_in_the_bucket_takes_it_back() {
    let place = Place::new();
    let base = base_ns();
    let first = place.start("first", &[]);
    push(&mut first.client(), "a", base, 0..100);
    first.stop();
    let second = place.start("second", &[]);
    insist(&second, "a", base, 100);
    push(&mut second.client(), "a", base, 100..150);
    second.stop();
    let first = place.start("first", &[]);
    insist(&first, "a", base, 150);
    first.stop();
}

/// The log of a start that fails.
#[track_caller]
fn failed(server: Server) -> String {
    let (status, log) = server.wait();
    assert!(status.code().is_some_and(|code| code != 0), "{status:?}: {log}");
    log
}

#[test]
fn starts_that_cannot_use_the_bucket_say_why() {
    let place = Place::new();
    std::fs::write(place.folder("file"), "x").expect("a file");
    let start = |data: &str, args: &[&str]| {
        Server::launch(&place.folder(data), &[&["--cores", "1"], args].concat())
    };
    // Nobody can make a folder below a file, not even root.
    let log = failed(start("data", &[&place.bucket_flag("file/bucket")]));
    assert!(log.contains("cannot use the bucket") && log.contains("file/bucket"), "{log}");
    let log = failed(start("data", &["--wal.durability=store"]));
    assert!(log.contains("wal.durability: store needs a bucket"), "{log}");
    let of_a = place.bucket_flag("a");
    let mut server = start("data", &[&of_a]);
    assert!(server.await_ready().is_some(), "{}", server.log_text());
    server.stop();
    let log = failed(start("data", &[&place.bucket_flag("b")]));
    assert!(log.contains("was used with another bucket"), "{log}");
    let mut server = start("data", &[&of_a]);
    assert!(server.await_ready().is_some(), "the right one is still taken: {}", server.log_text());
    server.stop();
}

#[test]
fn segments_leave_a_small_data_folder_and_are_read_from_the_bucket() {
    let place = Place::new();
    let base = base_ns();
    let small = ["--storage.cache-max-bytes=1"];
    let server = place.start("data", &small);
    for round in 0..3 {
        push(&mut server.client(), "a", base, round * 500..(round + 1) * 500);
        flush(&server);
    }
    let segments = place.folder("data");
    let deadline = Instant::now() + PATIENCE;
    while files(&segments, ".seg") > 0 {
        assert!(Instant::now() < deadline, "segments stay: {}", files(&segments, ".seg"));
        thread::sleep(Duration::from_millis(50));
    }
    assert!(files(&segments, ".tail") > 0, "the ends of segments stay");
    insist(&server, "a", base, 1500);
    server.stop();
    let server = place.start("data", &small);
    insist(&server, "a", base, 1500);
    server.stop();
}

/// The sum of the samples that begin so.
#[track_caller]
fn metric(server: &Server, beginning: &str) -> f64 {
    let text = server.client().request("GET", "/metrics", &[], None).expect(200);
    let samples = text.lines().filter(|line| line.starts_with(beginning));
    let value = |line: &str| line.rsplit(' ').next().and_then(|value| value.parse::<f64>().ok());
    let values: Vec<f64> = samples.filter_map(value).collect();
    assert!(!values.is_empty(), "no sample begins with {beginning}");
    values.iter().sum()
}

#[test]
fn metrics_count_requests_and_where_reads_are_answered() {
    let place = Place::new();
    let base = base_ns();
    let server = place.start("data", &[]);
    let requests = |kind: &str| {
        let labels = format!("{{kind=\"{kind}\"");
        let count = metric(&server, &format!("logsvc_bucket_requests_total{labels}}}"));
        let timed =
            metric(&server, &format!("logsvc_bucket_request_duration_seconds_count{labels}}}"));
        // A request may be under way between the scrapes.
        assert!(timed + 32.0 >= count, "{kind}: {timed} of {count} have a time");
        count
    };
    let (created, sent) = (requests("create"), metric(&server, "logsvc_bucket_sent_bytes_total"));
    assert!(created > 0.0, "a start takes an epoch");
    assert!(requests("list") > 0.0 && requests("read") > 0.0, "and reads who was there");
    push(&mut server.client(), "a", base, 0..500);
    flush(&server);
    assert!(requests("create") > created, "the flush uploads a segment");
    assert!(metric(&server, "logsvc_bucket_sent_bytes_total") > sent + 1000.0);
    insist(&server, "a", base, 500);
    if !disk_is_low(&server) {
        assert!(
            metric(&server, "logsvc_segment_reads_total{from=\"file\"}") > 0.0,
            "no file is read"
        );
        assert_eq!(metric(&server, "logsvc_segment_reads_total{from=\"bucket\"}"), 0.0);
        assert_eq!(metric(&server, "logsvc_segment_evictions_total"), 0.0);
    }
    assert_eq!(metric(&server, "logsvc_bucket_request_failures_total"), 0.0);
    server.stop();

    let server = place.start("data", &["--storage.cache-max-bytes=1"]);
    let deadline = Instant::now() + PATIENCE;
    while metric(&server, "logsvc_segment_evictions_total") == 0.0 {
        assert!(Instant::now() < deadline, "no file is evicted");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(metric(&server, "logsvc_segment_evicted_bytes_total") > 1000.0);
    let received = metric(&server, "logsvc_bucket_received_bytes_total");
    insist(&server, "a", base, 500);
    let from_bucket = metric(&server, "logsvc_segment_read_bytes_total{from=\"bucket\"}");
    assert!(from_bucket > 0.0, "columns come from the bucket");
    assert!(metric(&server, "logsvc_segment_reads_total{from=\"tail\"}") > 0.0);
    assert!(metric(&server, "logsvc_bucket_received_bytes_total") >= received + from_bucket);
    server.stop();
}
