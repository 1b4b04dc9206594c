//! Entries are hidden from every kind of answer as long as their request holds.

use super::*;
use crate::support::websocket::WebSocket;
use crate::support::{DataDir, entry, stream};

const APP: &str = r#"{app="a"}"#;

/// Sixty entries of one pattern, one a second. Those of even seconds hold `warn`, those of every
/// sixth second the metadata `user="u1"`.
fn fill(client: &mut Client, first_s: i64) {
    let entries = (0..60).map(|n| {
        let word = if n % 2 == 0 { "warn" } else { "fine" };
        let one = entry(
            (first_s + n) * SECOND_NS,
            format!("level=info number={n} tag={word}{n} took 5ms"),
        );
        if n % 6 == 0 { one.with_metadata(&[("user", "u1")]) } else { one }
    });
    client.push(&[stream(&[("app", "a"), ("service_name", "a")], entries.collect())]);
}

/// The numbers of entries that each kind of answer shows.
#[derive(Debug, PartialEq)]
struct Seen {
    range: usize,
    instant: usize,
    steps: usize,
    bytes: usize,
    by_user: usize,
    unwrapped: usize,
    numbers: usize,
    patterns: usize,
    file: usize,
}

impl Seen {
    /// Each of so many entries is shown everywhere.
    fn all(entries: usize) -> Seen {
        Seen {
            range: entries,
            instant: entries,
            steps: entries,
            bytes: entries,
            by_user: entries,
            unwrapped: entries,
            numbers: entries,
            patterns: entries,
            file: entries,
        }
    }
}

/// Asks with everything that shows or counts entries.
fn ask(client: &mut Client, first_s: i64) -> Seen {
    let (start, end) = ((first_s - 5).to_string(), (first_s + 90).to_string());
    let bounds = [("start", start.as_str()), ("end", end.as_str())];
    let wide = [&bounds[..], &[("limit", "1000")]].concat();
    let range = query::range(client, APP, &wide);
    let at_ns = (first_s + 90) * SECOND_NS;
    let sum = |client: &mut Client, query: &str| {
        let data = query::instant(client, query, at_ns);
        query::vector(&data).iter().map(|(_, value)| *value).sum::<f64>() as usize
    };
    let instant = sum(client, r#"count_over_time({app="a"}[5m])"#);
    let bytes = sum(client, r#"sum(bytes_over_time({app="a"} | line_format "x" [5m]))"#);
    let by_user = sum(client, r#"sum by (user) (count_over_time({app="a"}[5m]))"#);
    let ones = r#"sum(sum_over_time({app="a"} | logfmt | label_format one="1" | unwrap one [5m]))"#;
    let unwrapped = sum(client, ones);
    let steps = {
        let more = [&bounds[..], &[("step", "5")]].concat();
        let data = query::range(client, r#"sum(count_over_time({app="a"}[5s]))"#, &more);
        let values = data["result"][0]["values"].as_array().expect("values").clone();
        let value = |sample: &Value| sample[1].as_str().expect("a text").parse::<f64>();
        values.iter().map(|sample| value(sample).expect("a number")).sum::<f64>() as usize
    };
    let numbers = {
        let params = [&bounds[..], &[("query", APP), ("limit", "1000")]].concat();
        let target = query::target("/loki/api/v1/detected_field/number/values", &params);
        client.get(&target).json()["values"].as_array().map_or(0, Vec::len)
    };
    let patterns = {
        let params = [&bounds[..], &[("query", APP), ("step", "10s")]].concat();
        let answer = client.get(&query::target("/loki/api/v1/patterns", &params)).json();
        let series = answer["data"].as_array().cloned().unwrap_or_default();
        let samples = series.iter().filter_map(|one| one["samples"].as_array());
        samples.flatten().filter_map(|sample| sample[1].as_u64()).sum::<u64>() as usize
    };
    let file = rows_of_file(client, &wide).unwrap_or(instant);
    let range = query::texts(&range).len();
    Seen { range, instant, steps, bytes, by_user, unwrapped, numbers, patterns, file }
}

/// The rows of a file of the entries; `None` if the server makes no files.
#[cfg(feature = "parquet")]
fn rows_of_file(client: &mut Client, params: &[(&str, &str)]) -> Option<usize> {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let params = [params, &[("query", APP)]].concat();
    let target = query::target("/loki/api/v1/query_range", &params);
    let headers = [("Accept", "application/vnd.apache.parquet")];
    let reply = client.request("GET", &target, &headers, None);
    assert_eq!(reply.status, 200, "{}", reply.text());
    let file = SerializedFileReader::new(bytes::Bytes::from(reply.body)).expect("a file");
    Some(file.get_row_iter(None).expect("rows").count())
}

#[cfg(not(feature = "parquet"))]
fn rows_of_file(_client: &mut Client, _params: &[(&str, &str)]) -> Option<usize> {
    None
}

/// The lines of the history that a tail begins with; one more entry ends it.
fn tail_history(server: &Server, first_s: i64) -> usize {
    let params = [("query", APP), ("start", &*first_s.to_string()), ("limit", "1000")];
    let target = query::target("/loki/api/v1/tail", &params);
    let opened = WebSocket::open(server.address(), &target, &[]);
    let mut tail = opened.unwrap_or_else(|reply| panic!("{}: {}", reply.status, reply.text()));
    let mut client = server.client();
    let labels = [("app", "a"), ("service_name", "a"), ("mark", "end")];
    let mark_ns = now_ns();
    client.push(&[stream(&labels, vec![entry(mark_ns, "the end")])]);
    let mut count = 0;
    loop {
        // A frame has entries of several streams.
        for (labels, time_ns, _) in tail.entries(1) {
            if labels["mark"] != "end" {
                count += 1;
            } else if time_ns == mark_ns {
                return count;
            }
        }
    }
}

#[test]
fn entries_are_hidden_at_once_and_shown_again_at_once() {
    let folder = DataDir::new();
    let server = start(folder.path(), &[]);
    let mut client = server.client();
    let first_s = seconds_ago(200) / 5 * 5;
    fill(&mut client, first_s);
    assert_eq!(ask(&mut client, first_s), Seen::all(60));
    // Answers that are kept are asked for again.
    assert_eq!(ask(&mut client, first_s), Seen::all(60));
    let stats = |client: &mut Client| {
        let (start, end) = ((first_s - 5).to_string(), (first_s + 90).to_string());
        let params = [("query", APP), ("start", &*start), ("end", &*end)];
        let stats = client.get(&query::target("/loki/api/v1/index/stats", &params)).json();
        let volume = client.get(&query::target("/loki/api/v1/index/volume", &params)).json();
        let series = query::list(client, "/loki/api/v1/series", &[("match[]", APP)]);
        (stats, volume["data"]["result"][0]["value"][1].clone(), series)
    };
    let stored = stats(&mut client);

    // Both ends count: the even seconds from 20 to 38 are ten entries.
    let warn = r#"{app="a"} |= "warn""#;
    let id = delete(&mut client, "fake", warn, first_s + 20, first_s + 38);
    assert_eq!(ask(&mut client, first_s), Seen::all(50));
    assert_eq!(ask(&mut client, first_s), Seen::all(50));
    assert_eq!(stats(&mut client), stored, "they tell what is stored");
    assert_eq!(tail_history(&server, first_s), 50);

    // The same once more, and one that selects nothing.
    let twin = delete(&mut client, "fake", warn, first_s + 20, first_s + 38);
    delete(&mut client, "fake", r#"{app="a"} |= "nosuch""#, first_s, first_s + 60);
    assert_eq!(cancel(&mut client, "fake", &[("request_id", &id)]), (204, String::new()));
    assert_eq!(ask(&mut client, first_s), Seen::all(50), "the other one holds");
    assert_eq!(cancel(&mut client, "fake", &[("request_id", &twin)]), (204, String::new()));
    assert_eq!(ask(&mut client, first_s), Seen::all(60));

    // By metadata: 0, 6, ... 54.
    delete(&mut client, "fake", r#"{app="a"} | user="u1""#, first_s, first_s + 59);
    assert_eq!(ask(&mut client, first_s), Seen::all(50));
    // Everything of some times.
    delete(&mut client, "fake", APP, first_s + 1, first_s + 4);
    assert_eq!(ask(&mut client, first_s), Seen::all(46));

    // An entry that comes now is hidden, too; others are not.
    let labels = [("app", "a"), ("service_name", "a")];
    let late = entry((first_s + 2) * SECOND_NS + 7, "level=info number=100 tag=late100 took 5ms");
    client.push(&[stream(&labels, vec![late])]);
    assert_eq!(ask(&mut client, first_s), Seen::all(46));
    let next = entry((first_s + 70) * SECOND_NS, "level=info number=101 tag=late101 took 5ms");
    client.push(&[stream(&labels, vec![next])]);
    assert_eq!(ask(&mut client, first_s), Seen::all(47));

    // What was answered holds after a kill, and after a start with another number of cores.
    server.kill();
    for cores in ["2", "1", "3"] {
        let server = start_with_cores(folder.path(), cores, &[]);
        let mut client = server.client();
        assert_eq!(ask(&mut client, first_s), Seen::all(47), "{cores} cores");
        assert_eq!(list(&mut client, "fake").len(), 3);
        server.kill();
    }
}

#[test]
fn requests_of_a_tenant_leave_the_others_alone() {
    let folder = DataDir::new();
    let server = start(folder.path(), &["--auth.enabled=true"]);
    let mut client = server.client();
    let minute_s = seconds_ago(0) / 60 * 60;
    let first_s = minute_s - 20 * 60;
    let tenants = ["t", "tenant-1", "tenant-12"];
    for tenant in tenants {
        let entries = (0..60).map(|n| entry((first_s + n) * SECOND_NS, format!("number={n}")));
        let body = crate::support::body::json(&[stream(&[("app", "a")], entries.collect())]);
        let headers = [("X-Scope-OrgID", tenant), ("Content-Type", "application/json")];
        let pushed = client.request("POST", "/loki/api/v1/push", &headers, Some(body.as_bytes()));
        pushed.expect(204);
    }
    // The sum, and how many answers were found in the cache.
    let ask = |client: &mut Client, tenant: &str| {
        let (start, end) = (first_s.to_string(), (minute_s - 60).to_string());
        let query = r#"sum(count_over_time({app="a"}[1m]))"#;
        let params = [("query", query), ("start", &start), ("end", &end), ("step", "60")];
        let target = query::target("/loki/api/v1/query_range", &params);
        let answer = client.request("GET", &target, &[("X-Scope-OrgID", tenant)], None).json();
        let values = answer["data"]["result"][0]["values"].as_array().cloned();
        let value = |sample: &Value| sample[1].as_str().expect("a text").parse::<f64>();
        let sum: f64 = values.iter().flatten().map(|sample| value(sample).expect("a number")).sum();
        let cache = &answer["data"]["stats"]["cache"]["result"];
        (sum as i64, cache["entriesFound"].as_i64().expect("a number"))
    };
    for tenant in tenants {
        assert_eq!(ask(&mut client, tenant), (60, 0), "{tenant}");
        assert_eq!(ask(&mut client, tenant), (60, 1), "{tenant}");
    }
    let id = delete(&mut client, "tenant-12", r#"{app="a"}"#, first_s + 1, first_s + 10);
    assert_eq!(ask(&mut client, "tenant-12").0, 50);
    for tenant in ["t", "tenant-1"] {
        assert_eq!(ask(&mut client, tenant), (60, 1), "{tenant} keeps its answers");
    }
    assert_eq!(cancel(&mut client, "tenant-12", &[("request_id", &id)]), (204, String::new()));
    assert_eq!(ask(&mut client, "tenant-12").0, 60);
    for tenant in ["t", "tenant-1"] {
        assert_eq!(ask(&mut client, tenant), (60, 1), "{tenant} keeps its answers");
    }
}

#[test]
fn modes_say_what_becomes_of_entries() {
    let folder = DataDir::new();
    let first_s = seconds_ago(200) / 5 * 5;
    let period = "--compactor.delete-request-cancel-period=1s";
    let filter_only = ["--cores=2", "--limits.deletion-mode=filter-only", period, ON[0]];
    let server = Server::start(folder.path(), &filter_only);
    let mut client = server.client();
    fill(&mut client, first_s);
    let id = delete(&mut client, "fake", r#"{app="a"} |= "warn""#, first_s, first_s + 59);
    assert_eq!(ask(&mut client, first_s), Seen::all(30));
    server.stop();
    // Nobody can make or list requests now; the one that is there goes on hiding.
    let server = Server::start(folder.path(), &["--cores=2", period, ON[0]]);
    let mut client = server.client();
    assert_eq!(ask(&mut client, first_s), Seen::all(30));
    client.get(PATH).expect(403);
    server.stop();
    // Retention is off: likewise.
    let server = Server::start(folder.path(), &["--cores=2", period, ON[1]]);
    let mut client = server.client();
    assert_eq!(ask(&mut client, first_s), Seen::all(30));
    client.get(PATH).expect(400);
    server.stop();
    // Not even in the times in which it could have been was anything removed.
    let server = Server::start(folder.path(), &filter_only);
    let mut client = server.client();
    assert_eq!(status_of(&mut client, "fake", &id).as_deref(), Some("received"));
    let late = "Cancellation of partially completed delete request or delete request past the \
                deadline of 1s since its creation is not allowed. To force, use the ?force query \
                parameter\n";
    // Requests of this start are late after a second of it.
    let other = delete(&mut client, "fake", r#"{app="none"}"#, first_s, first_s + 1);
    let made = Instant::now();
    while made.elapsed() <= Duration::from_secs(1) {
        std::thread::sleep(Duration::from_millis(10));
    }
    let refused = cancel(&mut client, "fake", &[("request_id", &other)]);
    assert_eq!(refused, (400, late.to_owned()));
    let forced = [("request_id", id.as_str()), ("force", "true")];
    assert_eq!(cancel(&mut client, "fake", &forced), (204, String::new()));
    assert_eq!(ask(&mut client, first_s), Seen::all(60));
}
