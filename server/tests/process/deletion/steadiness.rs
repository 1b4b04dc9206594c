//! Answers are those of one moment while requests are made and cancelled; tails, tenants and
//! numbers of cores.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use super::*;
use crate::support::websocket::WebSocket;
use crate::support::{DataDir, body, entry, stream};

const APP: &str = r#"{app="a"}"#;
const WARN: &str = r#"{app="a"} |= "warn""#;
const STREAMS: i64 = 12;
const MINUTES: i64 = 10;

/// Streams on all cores, each with an entry at every ten seconds of some minutes. Every third one
/// holds `warn`.
fn fill(client: &mut Client, first_s: i64) {
    let streams = (0..STREAMS).map(|pod| {
        let entries = (0..MINUTES * 6).map(|n| {
            let word = if n % 3 == 0 { "warn" } else { "fine" };
            entry((first_s + n * 10) * SECOND_NS + pod, format!("{word} pod={pod} number={n}"))
        });
        let pod = pod.to_string();
        let labels = [("app", "a"), ("service_name", "a"), ("pod", pod.as_str())];
        stream(&labels, entries.collect())
    });
    client.push(&streams.collect::<Vec<_>>());
}

/// The kinds of queries that run all the time, and the sum of the entries that they show.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Lines,
    Steps,
    Instant,
}

impl Kind {
    /// The answers, one number for each minute where the query has steps.
    fn ask(self, client: &mut Client, first_s: i64) -> Vec<usize> {
        let end_s = first_s + MINUTES * 60;
        let (start, end) = (first_s.to_string(), end_s.to_string());
        let bounds = [("start", start.as_str()), ("end", end.as_str())];
        match self {
            Kind::Lines => {
                let params = [&bounds[..], &[("limit", "5000")]].concat();
                vec![query::texts(&query::range(client, APP, &params)).len()]
            }
            Kind::Steps => {
                let params = [&bounds[..], &[("step", "60")]].concat();
                let query = r#"sum(count_over_time({app="a"}[1m]))"#;
                let data = query::range(client, query, &params);
                let values = data["result"][0]["values"].as_array().expect("values").clone();
                let value = |sample: &Value| sample[1].as_str().map(str::parse::<f64>);
                let value = |sample| value(sample).expect("a text").expect("a number") as usize;
                values.iter().map(value).collect()
            }
            Kind::Instant => {
                let query = r#"sum(count_over_time({app="a"}[20m]))"#;
                let data = query::instant(client, query, end_s * SECOND_NS);
                query::vector(&data).iter().map(|(_, value)| *value as usize).collect()
            }
        }
    }
}

#[test]
fn no_answer_mixes_what_was_shown_and_what_is() {
    const ROUNDS: usize = 12;
    const KINDS: [Kind; 3] = [Kind::Lines, Kind::Steps, Kind::Instant];
    let folder = DataDir::new();
    let server = start(folder.path(), &[]);
    let mut client = server.client();
    let first_s = seconds_ago(1800) / 60 * 60;
    fill(&mut client, first_s);
    let ask = |client: &mut Client| KINDS.map(|kind| kind.ask(client, first_s));
    let end_s = first_s + MINUTES * 60;
    let full = ask(&mut client);
    let id = delete(&mut client, "fake", WARN, first_s, end_s);
    let hidden = ask(&mut client);
    assert_eq!(cancel(&mut client, "fake", &[("request_id", &id)]), (204, String::new()));
    let all = (STREAMS * MINUTES * 6) as usize;
    assert_eq!((full[0][0], hidden[0][0]), (all, all / 3 * 2));
    assert_eq!((full[2][0], hidden[2][0]), (all, all / 3 * 2));

    // Counts the changes that have begun and those that are answered: odd while one is under way.
    let (phase, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let asked = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..4 {
            let mut client = server.client();
            let (phase, is_over, asked) = (&phase, &is_over, &asked);
            let (full, hidden) = (&full, &hidden);
            scope.spawn(move || {
                let _end = EndOnDrop(is_over);
                let mut turn = number;
                while !is_over.load(Ordering::SeqCst) {
                    turn += 1;
                    let kind = turn % KINDS.len();
                    let before = phase.load(Ordering::SeqCst);
                    let answer = KINDS[kind].ask(&mut client, first_s);
                    let after = phase.load(Ordering::SeqCst);
                    let is_full = answer == full[kind];
                    assert!(is_full || answer == hidden[kind], "{:?}: {answer:?}", KINDS[kind]);
                    // 0, 4, 8, ...: all is shown; 2, 6, 10, ...: a request is in force.
                    if before == after && before % 2 == 0 {
                        assert_eq!(is_full, before % 4 == 0, "{:?}, phase {before}", KINDS[kind]);
                    }
                    asked.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let end = EndOnDrop(&is_over);
        for _ in 0..ROUNDS {
            phase.fetch_add(1, Ordering::SeqCst);
            let id = delete(&mut client, "fake", WARN, first_s, end_s);
            phase.fetch_add(1, Ordering::SeqCst);
            assert_eq!(ask(&mut client), hidden);
            await_more(&asked, &is_over);
            phase.fetch_add(1, Ordering::SeqCst);
            assert_eq!(cancel(&mut client, "fake", &[("request_id", &id)]).0, 204);
            phase.fetch_add(1, Ordering::SeqCst);
            assert_eq!(ask(&mut client), full);
            await_more(&asked, &is_over);
        }
        drop(end);
    });
    assert_eq!(ask(&mut client), full);
    assert!(!server.stop().contains("panicked"));
}

/// Ends all threads when one fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Waits until some more queries are answered.
fn await_more(asked: &AtomicUsize, is_over: &AtomicBool) {
    let enough = asked.load(Ordering::SeqCst) + 4;
    let deadline = Instant::now() + PATIENCE;
    while asked.load(Ordering::SeqCst) < enough {
        assert!(!is_over.load(Ordering::SeqCst), "an answer was wrong");
        assert!(Instant::now() < deadline, "the queries are not answered");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn no_answer_shows_entries_that_are_being_removed() {
    const KINDS: [Kind; 3] = [Kind::Lines, Kind::Steps, Kind::Instant];
    let folder = DataDir::new();
    let soon = "--compactor.delete-request-cancel-period=1ms";
    let server = start(folder.path(), &[soon]);
    let mut client = server.client();
    let first_s = seconds_ago(1800) / 60 * 60;
    fill(&mut client, first_s);
    client.request("POST", "/flush", &[], None).expect(204);
    let full = KINDS.map(|kind| kind.ask(&mut client, first_s));
    // What each kind shows when so many minutes have lost a third of their entries.
    let of_minute = (STREAMS * 6) as usize;
    let expected = |kind: usize, minutes: usize| -> Vec<usize> {
        let gone = of_minute / 3;
        match KINDS[kind] {
            Kind::Lines | Kind::Instant => vec![full[kind][0] - minutes * gone],
            Kind::Steps => {
                // An entry of a full minute counts at its end; those of pod 0 at its beginning.
                let time_of = |step: usize| first_s * SECOND_NS + step as i64 * 60 * SECOND_NS;
                let lost = |step: usize| {
                    let entries =
                        (0..STREAMS).flat_map(|pod| (0..MINUTES * 6).map(move |n| (pod, n)));
                    let counts = |&(pod, n): &(i64, i64)| {
                        let time_ns = (first_s + n * 10) * SECOND_NS + pod;
                        let is_in_step =
                            time_of(step) - 60 * SECOND_NS < time_ns && time_ns <= time_of(step);
                        is_in_step && n % 3 == 0 && n / 6 < minutes as i64
                    };
                    entries.filter(counts).count()
                };
                let left = full[kind].iter().enumerate().map(|(step, all)| all - lost(step));
                // A step without entries has no sample.
                left.filter(|&count| count > 0).collect()
            }
        }
    };
    // How many requests have begun, and how many are answered.
    let (begun, answered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let (is_over, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..3 {
            let mut client = server.client();
            let (begun, answered, is_over, asked) = (&begun, &answered, &is_over, &asked);
            let expected = &expected;
            scope.spawn(move || {
                let _end = EndOnDrop(is_over);
                let mut turn = number;
                while !is_over.load(Ordering::SeqCst) {
                    turn += 1;
                    let kind = turn % KINDS.len();
                    let least = answered.load(Ordering::SeqCst);
                    let answer = KINDS[kind].ask(&mut client, first_s);
                    let most = begun.load(Ordering::SeqCst);
                    let is_one = (least..=most).any(|n| answer == expected(kind, n));
                    assert!(is_one, "{:?}, {least} to {most} minutes: {answer:?}", KINDS[kind]);
                    asked.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let end = EndOnDrop(&is_over);
        for minute in 0..MINUTES {
            let from_s = first_s + minute * 60;
            begun.fetch_add(1, Ordering::SeqCst);
            let id = delete(&mut client, "fake", WARN, from_s, from_s + 59);
            answered.fetch_add(1, Ordering::SeqCst);
            await_processed(&mut client, "fake", &id);
            await_more(&asked, &is_over);
        }
        drop(end);
    });
    for (number, kind) in KINDS.into_iter().enumerate() {
        assert_eq!(kind.ask(&mut client, first_s), expected(number, MINUTES as usize), "{kind:?}");
    }
    assert!(!server.stop().contains("panicked"));
}

#[test]
fn tails_show_new_entries_that_no_request_selects() {
    let folder = DataDir::new();
    let server = start(folder.path(), &[]);
    let mut client = server.client();
    let first_s = seconds_ago(3000);
    let labels = [("app", "a"), ("service_name", "a")];
    let push = |client: &mut Client, after_s: i64, line: &str| {
        client.push(&[stream(&labels, vec![entry((first_s + after_s) * SECOND_NS, line)])]);
    };
    push(&mut client, 0, "warn 0");
    push(&mut client, 1, "fine 1");
    let open = |query: &str| {
        let start = first_s.to_string();
        let params = [("query", query), ("start", start.as_str()), ("limit", "1000")];
        let target = query::target("/loki/api/v1/tail", &params);
        let opened = WebSocket::open(server.address(), &target, &[]);
        opened.unwrap_or_else(|reply| panic!("{}: {}", reply.status, reply.text()))
    };
    let mut tails = [open(APP), open(r#"{app="a"} |~ "warn|fine""#)];
    for tail in &mut tails {
        assert_eq!(tail.lines(2), ["warn 0", "fine 1"]);
    }
    let some = delete(&mut client, "fake", WARN, first_s, first_s + 100);
    let all = delete(&mut client, "fake", APP, first_s + 200, first_s + 300);
    // A stream that is new, too.
    let pods = [("app", "a"), ("service_name", "a"), ("pod", "new")];
    let late = entry((first_s + 50) * SECOND_NS, "warn new");
    client.push(&[stream(&pods, vec![late])]);
    for (after_s, line) in [
        (50, "warn 50"),
        (100, "warn 100"),
        (200, "fine 200"),
        (250, "fine 250"),
        (60, "fine 60"),
        (101, "warn 101"),
        (301, "fine 301"),
    ] {
        push(&mut client, after_s, line);
    }
    tails.iter_mut().for_each(|tail| {
        assert_eq!(tail.lines(3), ["fine 60", "warn 101", "fine 301"]);
    });
    assert_eq!(open(APP).lines(4), ["fine 1", "fine 60", "warn 101", "fine 301"]);
    for id in [&some, &all] {
        assert_eq!(cancel(&mut client, "fake", &[("request_id", id)]), (204, String::new()));
    }
    push(&mut client, 51, "warn 51");
    push(&mut client, 251, "fine 251");
    for tail in &mut tails {
        assert_eq!(tail.lines(2), ["warn 51", "fine 251"]);
    }
}

#[test]
fn a_request_hides_entries_of_its_tenant_among_several() {
    let folder = DataDir::new();
    let more = ["--auth.enabled", "--querier.multi-tenant-queries-enabled"];
    let server = start(folder.path(), &more);
    let mut client = server.client();
    let first_s = seconds_ago(600);
    let push = |client: &mut Client, tenant: &str, labels: &[(&str, &str)]| {
        let line = |n: i64| format!("{} {tenant} {n}", if n % 2 == 0 { "warn" } else { "fine" });
        let entries = (0..10).map(|n| entry((first_s + n) * SECOND_NS, line(n)));
        let body = body::json(&[stream(labels, entries.collect())]);
        let headers = [("Content-Type", "application/json"), ("X-Scope-OrgID", tenant)];
        let reply = client.request("POST", "/loki/api/v1/push", &headers, Some(body.as_bytes()));
        reply.expect(204);
    };
    for tenant in ["a", "b", "c"] {
        push(&mut client, tenant, &[("app", "a"), ("service_name", "a")]);
    }
    let odd = [("app", "a"), ("service_name", "a"), ("__tenant_id__", "c")];
    push(&mut client, "b", &odd);
    // The entries of each tenant, and of its stream with a label of that name.
    let count = |client: &mut Client, tenants: &str| {
        let query =
            r#"sum by (__tenant_id__, original___tenant_id__) (count_over_time({app="a"}[5m]))"#;
        let time = (first_s + 20).to_string();
        let target = query::target("/loki/api/v1/query", &[("query", query), ("time", &time)]);
        let headers = [("X-Scope-OrgID", tenants)];
        let answer = client.request("GET", &target, &headers, None).json();
        query::vector(&answer["data"])
    };
    let of = |tenant: &str, n: f64| (format!("{{\"__tenant_id__\":\"{tenant}\"}}"), n);
    let own = r#"{"__tenant_id__":"b","original___tenant_id__":"c"}"#.to_owned();
    let full = [of("a", 10.0), of("b", 10.0), (own.clone(), 10.0), of("c", 10.0)];
    let sorted = |mut list: Vec<(String, f64)>| {
        list.sort_by(|x, y| x.0.cmp(&y.0));
        list
    };
    assert_eq!(count(&mut client, "a|b|c"), sorted(full.to_vec()));
    let first = delete(&mut client, "b", WARN, first_s, first_s + 9);
    let hidden = [of("a", 10.0), of("b", 5.0), (own.clone(), 5.0), of("c", 10.0)];
    assert_eq!(count(&mut client, "a|b|c"), sorted(hidden.to_vec()));
    assert_eq!(count(&mut client, "a|c"), [of("a", 10.0), of("c", 10.0)]);
    assert_eq!(cancel(&mut client, "b", &[("request_id", &first)]).0, 204);
    // The name of a tenant is no label of its streams; a label of that name is.
    delete(&mut client, "b", r#"{__tenant_id__="b"}"#, first_s, first_s + 9);
    assert_eq!(count(&mut client, "a|b|c"), sorted(full.to_vec()));
    delete(&mut client, "b", r#"{__tenant_id__="c"}"#, first_s, first_s + 4);
    let hidden = [of("a", 10.0), of("b", 10.0), (own, 5.0), of("c", 10.0)];
    assert_eq!(count(&mut client, "a|b|c"), sorted(hidden.to_vec()));
}

#[test]
fn requests_hold_on_another_number_of_cores() {
    let folder = DataDir::new();
    let soon = "--compactor.delete-request-cancel-period=1ms";
    let first_s = seconds_ago(1800) / 60 * 60;
    let end_s = first_s + MINUTES * 60;
    let all = (STREAMS * MINUTES * 6) as usize;
    let count = |client: &mut Client| {
        let sum = Kind::Instant.ask(client, first_s)[0];
        assert_eq!(Kind::Lines.ask(client, first_s), [sum]);
        sum
    };
    let server = start_with_cores(folder.path(), "2", &[soon]);
    let mut client = server.client();
    fill(&mut client, first_s);
    let done = delete(&mut client, "fake", WARN, first_s, end_s);
    await_processed(&mut client, "fake", &done);
    assert_eq!(count(&mut client), all / 3 * 2);
    server.kill();

    // Two minutes are hidden on one core, and three on three: three of ten minutes together.
    let server = start_with_cores(folder.path(), "1", &[]);
    let mut client = server.client();
    assert_eq!(count(&mut client), all / 3 * 2);
    delete(&mut client, "fake", APP, first_s, first_s + 119);
    assert_eq!(count(&mut client), all / 3 * 2 / 10 * 8);
    server.kill();
    let server = start_with_cores(folder.path(), "3", &[]);
    let mut client = server.client();
    assert_eq!(count(&mut client), all / 3 * 2 / 10 * 8);
    let last = delete(&mut client, "fake", r#"{app="a"} |= "fine""#, first_s, first_s + 179);
    assert_eq!(count(&mut client), all / 3 * 2 / 10 * 7);
    // Entries that come late are of the same shards as those that were there.
    fill(&mut client, first_s);
    let again = count(&mut client);
    server.stop();
    let server = start_with_cores(folder.path(), "1", &[]);
    let mut client = server.client();
    assert_eq!(count(&mut client), again);
    // Warnings of the last seven minutes and of the third one are there again.
    assert_eq!(again, all / 3 * 2 / 10 * 7 + all / 3 / 10 * 8);
    server.stop();
    let server = start_with_cores(folder.path(), "2", &[soon]);
    let mut client = server.client();
    await_processed(&mut client, "fake", &last);
    assert_eq!(count(&mut client), again);
    let statuses: Vec<Value> =
        list(&mut client, "fake").iter().map(|one| one["status"].clone()).collect();
    assert_eq!(statuses, ["processed"; 3]);
}
