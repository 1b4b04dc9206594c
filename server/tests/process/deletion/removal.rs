//! Entries leave the disk, and everything that is told of the data is exact again.

use super::*;
use crate::support::{DataDir, entry, stream};

const LABELS: [(&str, &str); 2] = [("app", "a"), ("service_name", "a")];
const APP: &str = r#"{app="a"}"#;

/// Requests can be cancelled for two seconds.
const SOON: &str = "--compactor.delete-request-cancel-period=2s";

fn fill(client: &mut Client, first_s: i64) {
    let entries = (0..60).map(|n| {
        let word = if n % 2 == 0 { "warn" } else { "fine" };
        entry((first_s + n) * SECOND_NS, format!("level={word} number={n:02}"))
    });
    client.push(&[stream(&LABELS, entries.collect())]);
}

/// The entries that queries show, and those that the index counts.
fn counts(client: &mut Client, selector: &str, first_s: i64) -> (usize, u64) {
    let (start, end) = ((first_s - 5).to_string(), (first_s + 90).to_string());
    let bounds = [("start", start.as_str()), ("end", end.as_str())];
    let wide = [&bounds[..], &[("limit", "1000")]].concat();
    let shown = query::texts(&query::range(client, selector, &wide)).len();
    let params = [&bounds[..], &[("query", selector)]].concat();
    let stats = client.get(&query::target("/loki/api/v1/index/stats", &params)).json();
    (shown, stats["entries"].as_u64().expect("a number"))
}

fn volume(client: &mut Client, first_s: i64) -> u64 {
    let (start, end) = ((first_s - 5).to_string(), (first_s + 90).to_string());
    let params = [("query", APP), ("start", &*start), ("end", &*end)];
    let volume = client.get(&query::target("/loki/api/v1/index/volume", &params)).json();
    let value = volume["data"]["result"][0]["value"][1].as_str();
    value.map_or(0, |text| text.parse().expect("a number"))
}

#[test]
fn removed_entries_are_the_hidden_ones() {
    let folder = DataDir::new();
    let server = start(folder.path(), &[SOON]);
    let mut client = server.client();
    let first_s = seconds_ago(400);
    fill(&mut client, first_s);
    let all_bytes = volume(&mut client, first_s);
    let (from_s, to_s) = (first_s + 20, first_s + 39);
    let id = delete(&mut client, "fake", r#"{app="a"} |= "warn""#, from_s, to_s);
    let none = delete(&mut client, "fake", r#"{app="a"} |= "nosuch""#, first_s, first_s + 59);
    assert_eq!(counts(&mut client, APP, first_s).0, 50);
    assert_eq!(await_processed(&mut client, "fake", &id), ["received"]);
    await_processed(&mut client, "fake", &none);
    assert_eq!(counts(&mut client, APP, first_s), (50, 50));
    assert!(volume(&mut client, first_s) < all_bytes);
    let user = r#"{user="fake"}"#;
    let metric = |name: &str| server.metric(&format!("{name}{user}"));
    assert_eq!(metric("loki_compactor_deleted_lines"), 10.0);
    assert_eq!(metric("loki_compactor_delete_requests_processed_total"), 2.0);
    assert_eq!(server.metric("loki_compactor_pending_delete_requests_count"), 0.0);
    let oldest = "loki_compactor_oldest_pending_delete_request_age_seconds";
    assert_eq!(server.metric(oldest), 0.0);
    for params in
        [&[("request_id", id.as_str())][..], &[("request_id", id.as_str()), ("force", "true")]]
    {
        let text = "deletion of request which is in process or already processed is not allowed\n";
        assert_eq!(cancel(&mut client, "fake", params), (400, text.to_owned()));
    }

    // Entries that come once the request is processed are shown and stay.
    let late = entry((first_s + 22) * SECOND_NS, "level=warn again");
    client.push(&[stream(&LABELS, vec![late])]);
    assert_eq!(counts(&mut client, APP, first_s), (51, 51));
    client.request("POST", "/flush", &[], None).expect(204);
    assert_eq!(counts(&mut client, APP, first_s), (51, 51));
    server.kill();
    // Even if the record of requests is lost, what was removed stays away.
    std::fs::remove_dir_all(folder.path().join("deletes")).expect("the record is there");
    let server = start(folder.path(), &[SOON]);
    assert_eq!(counts(&mut server.client(), APP, first_s), (51, 51));
}

#[test]
fn a_word_that_was_deleted_is_in_no_file() {
    let folder = DataDir::new();
    // Lines are stored as they are in the log, so a search of bytes would find them there.
    let server = start(folder.path(), &[SOON]);
    let mut client = server.client();
    let first_s = seconds_ago(400);
    let word = "password-4711-is-out";
    let entries = (0..1000).map(|n| {
        let text = if n % 100 == 7 { word } else { "nothing to see" };
        entry(first_s * SECOND_NS + n, format!("line {n}: {text}"))
    });
    client.push(&[stream(&LABELS, entries.collect())]);
    assert_ne!(files_with(folder.path(), word), [""; 0], "the log has it");
    let id = delete(&mut client, "fake", &format!("{APP} |= \"{word}\""), first_s - 1, first_s + 1);
    assert_eq!(counts(&mut client, APP, first_s), (990, 1000));
    await_processed(&mut client, "fake", &id);
    let found = files_with(folder.path(), word);
    assert!(found.iter().all(|path| path.ends_with("deletes/REQUESTS")), "{found:?}");
    assert_eq!(counts(&mut client, APP, first_s), (990, 990));
    let log = server.stop();
    assert!(!log.contains(word), "{log}");
    let found = files_with(folder.path(), word);
    assert!(found.iter().all(|path| path.ends_with("deletes/REQUESTS")), "{found:?}");
}

#[test]
fn streams_without_entries_leave_labels_and_series() {
    let folder = DataDir::new();
    let server = start(folder.path(), &[SOON]);
    let mut client = server.client();
    let first_s = seconds_ago(400);
    fill(&mut client, first_s);
    let other = [("app", "b"), ("only", "b"), ("service_name", "b")];
    client.push(&[stream(&other, vec![entry(first_s * SECOND_NS, "stays not")])]);
    client.request("POST", "/flush", &[], None).expect(204);
    let names = |client: &mut Client| query::list(client, "/loki/api/v1/labels", &[]);
    let series = |client: &mut Client| {
        query::list(client, "/loki/api/v1/series", &[("match[]", r#"{app=~".+"}"#)]).len()
    };
    assert!(names(&mut client).contains(&"only".into()));
    let id = delete(&mut client, "fake", r#"{app="b"}"#, first_s - 1, first_s + 1);
    assert_eq!(counts(&mut client, r#"{app="b"}"#, first_s), (0, 1));
    assert_eq!(series(&mut client), 2);
    await_processed(&mut client, "fake", &id);
    // Streams of which nothing is left are forgotten soon after.
    let deadline = Instant::now() + PATIENCE;
    while series(&mut client) != 1 || names(&mut client).contains(&"only".into()) {
        assert!(Instant::now() < deadline, "{:?}", names(&mut client));
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(counts(&mut client, r#"{app="b"}"#, first_s), (0, 0));
    assert_eq!(counts(&mut client, APP, first_s), (60, 60));
}

#[test]
fn equal_requests_in_parts_are_both_processed_and_count_once() {
    let folder = DataDir::new();
    let server = start(folder.path(), &[SOON]);
    let mut client = server.client();
    let first_s = seconds_ago(5 * 3600) / 3600 * 3600;
    // On the full hour, half a millisecond after it, and in between.
    let times_ns = (0..4).flat_map(|hour| {
        let full_ns = (first_s + hour * 3600) * SECOND_NS;
        [full_ns, full_ns + 500_000, full_ns + 1800 * SECOND_NS]
    });
    let entries: Vec<_> = times_ns.map(|time_ns| entry(time_ns, "warn")).collect();
    client.push(&[stream(&LABELS, entries)]);
    let (start, end) = (first_s.to_string(), (first_s + 4 * 3600).to_string());
    let query = r#"{app="a"} |= "warn""#;
    let params = [("query", query), ("start", &*start), ("end", &*end), ("max_interval", "1h")];
    let ids = [create(&mut client, "fake", &params), create(&mut client, "fake", &params)];
    assert_eq!(list(&mut client, "fake").len(), 2, "each is one record");
    for id in &ids {
        let seen = await_processed(&mut client, "fake", id);
        let percents: Vec<u32> = seen
            .iter()
            .filter_map(|status| status.strip_suffix("% Complete"))
            .map(|number| number.parse().expect("a number"))
            .collect();
        assert!(percents.is_sorted() && percents.iter().all(|&number| number < 100), "{seen:?}");
    }
    assert_eq!(server.metric(r#"loki_compactor_deleted_lines{user="fake"}"#), 12.0);
    let params = [("query", APP), ("start", &*start), ("end", &*end)];
    let stats = client.get(&query::target("/loki/api/v1/index/stats", &params)).json();
    assert_eq!(stats["entries"], 0);
}

#[test]
fn a_change_of_the_mode_counts_while_the_server_runs() {
    let folder = DataDir::new();
    let file = folder.path().join("overrides.yaml");
    let set_mode = |mode: &str| {
        let text = format!("overrides:\n  a: {{deletion_mode: {mode}}}\n");
        std::fs::write(&file, text).expect("the folder can be written");
    };
    set_mode("filter-only");
    let flag = format!("--runtime-config.file={}", file.display());
    let more = ["--auth.enabled=true", &flag, "--runtime-config.reload-period=100ms"];
    let period = "--compactor.delete-request-cancel-period=1ms";
    let server = start(&folder.path().join("data"), &[&more[..], &[period]].concat());
    let mut client = server.client();
    let first_s = seconds_ago(400);
    let kept = delete(&mut client, "a", APP, first_s, first_s + 1);
    // Requests of another tenant are due at the same time and are done.
    let other = delete(&mut client, "b", APP, first_s, first_s + 1);
    await_processed(&mut client, "b", &other);
    assert_eq!(status_of(&mut client, "a", &kept).as_deref(), Some("received"));
    set_mode("filter-and-delete");
    await_processed(&mut client, "a", &kept);
    server.stop();
}

#[test]
fn cancelled_in_the_midst_a_request_leaves_the_rest() {
    const ENTRIES: usize = 1000;
    let folder = DataDir::new();
    // An entry a second, and a part for each second.
    let server = start(folder.path(), &["--compactor.delete-request-cancel-period=1ms"]);
    let mut client = server.client();
    let first_s = seconds_ago(4000);
    let (start, end) = (first_s.to_string(), (first_s + ENTRIES as i64).to_string());
    let entries =
        (0..ENTRIES as i64).map(|n| entry((first_s + n) * SECOND_NS, format!("warn {n:04}")));
    client.push(&[stream(&LABELS, entries.collect())]);
    let params = [
        ("query", r#"{app="a"} |= "warn""#),
        ("start", &*start),
        ("end", &*end),
        ("max_interval", "1s"),
    ];
    let id = create(&mut client, "fake", &params);
    let deadline = Instant::now() + PATIENCE;
    let percent = loop {
        let status = status_of(&mut client, "fake", &id).expect("the request is listed");
        if let Some(percent) = status.strip_suffix("% Complete") {
            break percent.parse::<usize>().expect("a number");
        }
        assert!(status == "received" && Instant::now() < deadline, "{status}");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!((1..100).contains(&percent), "{percent}");
    let shown = |client: &mut Client| {
        let params = [("start", &*start), ("end", &*end), ("limit", "5000")];
        let forward = [&params[..], &[("direction", "forward")]].concat();
        query::texts(&query::range(client, APP, &forward))
    };
    assert_eq!(shown(&mut client), [""; 0]);
    let late = "Cancellation of partially completed delete request or delete request past the \
                deadline of 1ms since its creation is not allowed. To force, use the ?force query \
                parameter\n";
    for force in ["", "false", "1", "TRUE"] {
        let params = [("request_id", id.as_str()), ("force", force)];
        assert_eq!(cancel(&mut client, "fake", &params), (400, late.to_owned()), "{force}");
    }
    let forced = [("request_id", id.as_str()), ("force", "true")];
    assert_eq!(cancel(&mut client, "fake", &forced), (204, String::new()));
    assert_eq!(status_of(&mut client, "fake", &id).as_deref(), Some("processed"));
    // The entries of the later parts are there again. The parts in work are removed to their end.
    let lines = shown(&mut client);
    let gone = ENTRIES - lines.len();
    assert!((percent * ENTRIES / 100..ENTRIES).contains(&gone), "{gone} after {percent} %");
    let rest: Vec<String> = (gone..ENTRIES).map(|n| format!("warn {n:04}")).collect();
    assert_eq!(lines, rest);
    let text = "deletion of request which is in process or already processed is not allowed\n";
    assert_eq!(cancel(&mut client, "fake", &forced), (400, text.to_owned()));
    // Another request is done behind the parts in work, and only its own entries go.
    let last_s = first_s + ENTRIES as i64 - 1;
    let last = delete(&mut client, "fake", APP, last_s - 9, last_s);
    await_processed(&mut client, "fake", &last);
    let left = shown(&mut client);
    assert_eq!(left.last(), rest.iter().rev().nth(10));
    // One pass works on eleven of the 1001 parts.
    let more = ENTRIES - 10 - left.len() - gone;
    assert!(more == 0 || more == 11, "{more}");
    assert_eq!(rest[rest.len() - 10 - left.len()..rest.len() - 10], left[..]);
}

/// Entries and bytes of the index statistics, and the volume, in a range.
fn figures(client: &mut Client, start_s: i64, end_s: i64) -> (u64, u64, u64) {
    let (start, end) = (start_s.to_string(), end_s.to_string());
    let params = [("query", APP), ("start", &*start), ("end", &*end)];
    let stats = client.get(&query::target("/loki/api/v1/index/stats", &params)).json();
    let number = |name: &str| stats[name].as_u64().expect("a number");
    let volume = client.get(&query::target("/loki/api/v1/index/volume", &params)).json();
    let volume = volume["data"]["result"].as_array().expect("a vector").iter().map(|series| {
        let value = series["value"][1].as_str().expect("a text");
        value.parse::<u64>().expect("a number")
    });
    (number("entries"), number("bytes"), volume.sum())
}

#[test]
fn figures_fall_with_each_request() {
    const ENTRIES: i64 = 6000;
    let folder = DataDir::new();
    let server = start(folder.path(), &["--compactor.delete-request-cancel-period=1ms"]);
    let mut client = server.client();
    // Three streams of two megabytes together.
    let first_s = seconds_ago(2 * ENTRIES);
    let end_s = first_s + ENTRIES;
    for pod in ["1", "2", "3"] {
        let labels = [("app", "a"), ("service_name", "a"), ("pod", pod)];
        for part in 0..4 {
            let entries = (part * ENTRIES / 4..(part + 1) * ENTRIES / 4).map(|n| {
                let line = format!("pod={pod} number={n:05} {}", "x".repeat(100));
                entry((first_s + n) * SECOND_NS, line)
            });
            client.push(&[stream(&labels, entries.collect())]);
        }
    }
    client.request("POST", "/flush", &[], None).expect(204);
    let all = figures(&mut client, first_s, end_s);
    assert_eq!(all.0, 3 * ENTRIES as u64);
    let outside = figures(&mut client, first_s + ENTRIES * 3 / 4, end_s);
    let mut last = all;
    for (number, left) in [(2, 2), (3, 4)] {
        // The older half goes, then the older half of what is left.
        let from_s = first_s + (number - 2) * ENTRIES / 2;
        let to_s = first_s + number * ENTRIES / 4 - 1;
        let id = delete(&mut client, "fake", APP, from_s, to_s);
        assert_eq!(figures(&mut client, first_s, end_s), last, "they tell what is stored");
        await_processed(&mut client, "fake", &id);
        let now = figures(&mut client, first_s, end_s);
        assert_eq!(now.0, all.0 / left);
        for (now, all) in [(now.1, all.1), (now.2, all.2)] {
            assert!(now.abs_diff(all / left) <= all / 50, "{now} of {all}, 1/{left} is left");
        }
        assert_eq!(figures(&mut client, first_s + ENTRIES * 3 / 4, end_s), outside);
        last = now;
        // The same once more changes nothing.
        let again = delete(&mut client, "fake", APP, from_s, to_s);
        await_processed(&mut client, "fake", &again);
        assert_eq!(figures(&mut client, first_s, end_s), now);
    }
    client.request("POST", "/flush", &[], None).expect(204);
    assert_eq!(figures(&mut client, first_s, end_s), last);
}
