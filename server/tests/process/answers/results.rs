//! Answers to metric range queries that are put together from steps that are known.

use serde_json::Value;

use crate::support::query::target;
use crate::support::random::seed;
use crate::support::{Client, DataDir, SECOND_NS, Server, entry, now_ns, stream};
use logsvc_testkit::Rng;

const NO_CACHE: (&str, &str) = ("Cache-Control", "no-cache");

/// The whole answer to a query over `minutes` up to some time, a step a minute.
#[track_caller]
fn ask(
    client: &mut Client,
    query: &str,
    end_ns: i64,
    minutes: i64,
    more: &[(&str, &str)],
) -> Value {
    let (start, end) = ((end_ns - minutes * 60 * SECOND_NS).to_string(), end_ns.to_string());
    let params = [("query", query), ("start", &start), ("end", &end), ("step", "60")];
    client.request("GET", &target("/loki/api/v1/query_range", &params), more, None).json()
}

/// The statistics of the answer cache in an answer: asked, found, stored, and the time that it
/// served in seconds.
fn cache_of(answer: &Value) -> [i64; 4] {
    let cache = &answer["data"]["stats"]["cache"]["result"];
    let number = |name: &str| cache[name].as_i64().unwrap_or_else(|| panic!("{name}: {cache}"));
    let served_s = number("queryLengthServed") / SECOND_NS;
    [number("entriesRequested"), number("entriesFound"), number("entriesStored"), served_s]
}

fn lines_of(answer: &Value) -> i64 {
    answer["data"]["stats"]["summary"]["totalLinesProcessed"].as_i64().expect("a number")
}

fn push(client: &mut Client, times_ns: &[i64], app: &str) {
    let entries = times_ns.iter().map(|&time_ns| entry(time_ns, format!("at {time_ns}")));
    client.push(&[stream(&[("app", app), ("env", "test")], entries.collect())]);
}

/// The last whole minute.
fn minute_ns() -> i64 {
    now_ns() / (60 * SECOND_NS) * 60 * SECOND_NS
}

const QUERY: &str = r#"sum by (app) (count_over_time({env="test"}[2m]))"#;

#[test]
fn a_dashboard_asks_only_for_what_is_new() {
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let end_ns = minute_ns();
    let back = |minutes: i64| end_ns - minutes * 60 * SECOND_NS;
    push(&mut client, &[back(20), back(12), back(9), back(3)], "web");
    let first = ask(&mut client, QUERY, back(1), 25, &[]);
    assert_eq!((cache_of(&first), lines_of(&first)), ([1, 0, 1, 0], 4));
    // All steps are known: no entry is read.
    let again = ask(&mut client, QUERY, back(1), 25, &[]);
    assert_eq!((cache_of(&again), lines_of(&again)), ([1, 1, 0, 26 * 60], 0));
    assert_eq!(again["data"]["result"], first["data"]["result"]);
    // One more step, and its entries.
    let moved = ask(&mut client, QUERY, end_ns, 25, &[]);
    assert_eq!((cache_of(&moved), lines_of(&moved)), ([1, 1, 1, 25 * 60], 0));
    // A request that refuses cached answers gets none, and the same result.
    let fresh = ask(&mut client, QUERY, end_ns, 25, &[NO_CACHE]);
    assert_eq!((cache_of(&fresh), lines_of(&fresh)), ([0; 4], 4));
    assert_eq!(fresh["data"]["result"], moved["data"]["result"]);
    assert_eq!(server.metric("logsvc_result_cache_hits_total"), 2.0);
    assert_eq!(server.metric("logsvc_result_cache_misses_total"), 1.0);
    assert_eq!(server.metric("logsvc_result_cache_steps_total"), 51.0);
    // Sealing changes no answer.
    client.request("POST", "/flush", &[], None).expect(204);
    assert_eq!(cache_of(&ask(&mut client, QUERY, end_ns, 25, &[])), [1, 1, 0, 26 * 60]);
    // A late entry is seen at once, by the steps that see it.
    push(&mut client, &[back(9) - 1], "late");
    let late = ask(&mut client, QUERY, end_ns, 25, &[]);
    let [asked, found, stored, served_s] = cache_of(&late);
    assert_eq!((asked, found, stored), (1, 1, 1));
    assert!((20 * 60..26 * 60).contains(&served_s), "{served_s}");
    assert_eq!(late["data"]["result"].as_array().map(Vec::len), Some(2), "{late}");
    // A client that invalidates caches invalidates this cache, too.
    let increase = "/loki/api/v1/cache/generation_numbers/increase";
    client.request("POST", increase, &[], None).expect(204);
    assert_eq!(cache_of(&ask(&mut client, QUERY, end_ns, 25, &[])), [1, 0, 1, 0]);
}

#[test]
fn nothing_is_kept_when_the_settings_say_so() {
    let folder = DataDir::new();
    let args = ["--cores", "2", "--query-range.cache-results=false"];
    let server = Server::start(folder.path(), &args);
    let mut client = server.client();
    let end_ns = minute_ns();
    push(&mut client, &[end_ns - 90 * SECOND_NS], "web");
    for _ in 0..2 {
        let answer = ask(&mut client, QUERY, end_ns, 10, &[]);
        assert_eq!((cache_of(&answer), lines_of(&answer)), ([0; 4], 1));
    }
}

#[test]
fn answers_are_those_that_no_cache_gives() {
    const QUERIES: [&str; 5] = [
        QUERY,
        r#"rate({app=~".+"}[1m])"#,
        r#"topk(1, sum by (app) (bytes_over_time({env="test"}[5m])))"#,
        r#"count_over_time({env="test"} |= "7" [3m] offset 1m)"#,
        r#"sum(rate({app="a"}[4m])) / sum(rate({env="test"}[4m]))"#,
    ];
    let folder = DataDir::new();
    let server = Server::start(folder.path(), &["--cores", "2"]);
    let mut client = server.client();
    let mut random = Rng::new(seed());
    let begin_ns = minute_ns() - 3600 * SECOND_NS;
    let mut newest_ns = begin_ns;
    for _ in 0..300 {
        match random.below(8) {
            0..3 => {
                newest_ns += random.below(120) as i64 * SECOND_NS;
                newest_ns = newest_ns.min(now_ns());
                let times = (0..=random.below(3)).map(|_| match random.below(4) {
                    0 => newest_ns - random.below(1500) as i64 * SECOND_NS,
                    _ => newest_ns - random.below(5) as i64,
                });
                let times: Vec<i64> = times.collect();
                push(&mut client, &times, ["a", "b", "c"][random.below(3) as usize]);
            }
            3 if random.below(4) == 0 => {
                client.request("POST", "/flush", &[], None).expect(204);
            }
            _ => {
                let query = QUERIES[random.below(5) as usize];
                let end_ns = begin_ns + (newest_ns - begin_ns) / (60 * SECOND_NS) * 60 * SECOND_NS;
                let end_ns = end_ns + random.below(3) as i64 * 60 * SECOND_NS;
                let minutes = [5, 20, 40][random.below(3) as usize];
                let found = ask(&mut client, query, end_ns, minutes, &[]);
                let expected = ask(&mut client, query, end_ns, minutes, &[NO_CACHE]);
                assert_eq!(found["data"]["result"], expected["data"]["result"], "{query}");
            }
        }
    }
    assert!(server.metric("logsvc_result_cache_hits_total") > 20.0);
}
