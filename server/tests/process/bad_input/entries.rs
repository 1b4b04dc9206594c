//! Entries that break the limits: they are refused one by one, the others of the
//! same push are stored.

use super::Victim;
use crate::support::{Entry, SECOND_NS, entry, now_ns, query, stream};

/// Streams keep the labels that were sent.
const NO_DISCOVERY: [&str; 2] = ["--cores=2", "--limits.discover-service-name=[]"];

const HOUR_NS: i64 = 3600 * SECOND_NS;

fn push(victim: &Victim, app: &str, entries: Vec<Entry>) -> crate::support::Reply {
    let json = crate::support::body::json(&[stream(&[("app", app)], entries)]);
    victim.server.client().push_json(json.as_bytes())
}

fn stored(victim: &Victim, app: &str) -> Vec<String> {
    let (start, end) = ((now_ns() - 24 * HOUR_NS).to_string(), (now_ns() + HOUR_NS).to_string());
    let params = [("start", start.as_str()), ("end", &end), ("direction", "forward")];
    let selector = format!("{{app=\"{app}\"}}");
    query::texts(&query::range(&mut victim.server.client(), &selector, &params))
}

#[test]
fn bad_entries_are_refused_and_the_others_stored() {
    let victim = Victim::new(&NO_DISCOVERY);
    let now = now_ns();
    let good = || (entry(now, "good 1"), entry(now + 1, "good 2"));
    let check = |app: &str, bad: Entry, parts: &[&str]| {
        let (first, second) = good();
        let answer = push(&victim, app, vec![first, bad, second]).expect(400);
        for part in parts {
            assert!(answer.contains(part), "{app}: {part} is missing in {answer}");
        }
        assert_eq!(stored(&victim, app), ["good 1", "good 2"], "{app}: {answer}");
    };
    let long = "x".repeat((256 << 10) + 1);
    let parts =
        ["max entry size '262144' bytes exceeded for stream '{app=\"long\"}'", "length '262145'"];
    check("long", entry(now, long), &parts);
    let parts = ["entry for stream '{app=\"old\"}' has timestamp too old:"];
    check("old", entry(now - 8 * 24 * HOUR_NS, "old"), &parts);
    let parts = ["entry for stream '{app=\"new\"}' has timestamp too new:"];
    check("new", entry(now + HOUR_NS, "new"), &parts);
    let late = entry(now - 2 * HOUR_NS, "late");
    let parts = ["entry too far behind", "total ignored: 1 out of 3 for stream: {app=\"late\"}"];
    check("late", late, &parts);
    let fat = entry(now, "fat").with_metadata(&[("k", &"v".repeat(70_000))]);
    check("fat", fat, &["structured metadata too large", "65536"]);
    let names: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
    let many = entry(now, "many").with_metadata(&pairs);
    check("many", many, &["too many structured metadata labels: '200', limit: '128'"]);
    let discarded = victim.server.metric("loki_discarded_samples_total");
    assert_eq!((victim.stored(), discarded), (12.0, 6.0));
    victim.survives();
}

#[test]
fn entries_behind_what_is_stored_are_refused_after_a_restart_too() {
    let folder = crate::support::DataDir::new();
    let server = crate::support::Server::start(folder.path(), &["--cores", "2"]);
    let now = now_ns();
    let labels = [("app", "window")];
    server.client().push(&[stream(&labels, vec![entry(now, "newest")])]);
    server.kill();
    let server = crate::support::Server::start(folder.path(), &["--cores", "1"]);
    let entries = vec![entry(now - 2 * HOUR_NS, "late"), entry(now - HOUR_NS / 2, "in the window")];
    let json = crate::support::body::json(&[stream(&labels, entries)]);
    let answer = server.client().push_json(json.as_bytes()).expect(400);
    assert!(answer.contains("total ignored: 1 out of 2"), "{answer}");
    let start_ns = now - 3 * HOUR_NS;
    let found = query::all_lines(&mut server.client(), r#"{app="window"}"#, start_ns, now + 1);
    let found: Vec<&str> = found.iter().map(|(_, line)| line.as_str()).collect();
    assert_eq!(found, ["in the window", "newest"]);
}

#[test]
fn label_sets_over_the_limits_cost_their_stream_only() {
    let victim = Victim::new(&NO_DISCOVERY);
    let now = now_ns();
    let names: Vec<String> = (0..16).map(|number| format!("label_{number}")).collect();
    let many: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "v")).collect();
    let (long_name, long_value) = ("n".repeat(1025), "v".repeat(2049));
    let line = || vec![entry(now, "line")];
    for (labels, text) in [
        (many.as_slice(), "has 16 label names; limit 15"),
        (&[(long_name.as_str(), "v")], "has label name too long"),
        (&[("name", long_value.as_str())], "has label value too long"),
        (&[], "at least one label pair is required per stream"),
    ] {
        let streams = [stream(labels, line()), stream(&[("app", "good"), ("case", "x")], line())];
        let json = crate::support::body::json(&streams);
        let answer = victim.server.client().push_json(json.as_bytes()).expect(400);
        assert!(answer.contains(text), "{answer}");
    }
    assert_eq!(stored(&victim, "good"), ["line"]);
    victim.survives();
}

#[test]
fn a_push_of_nothing_but_bad_entries_has_a_short_answer() {
    let victim = Victim::new(&["--cores", "1"]);
    let old = now_ns() - 8 * 24 * HOUR_NS;
    let entries = (0..20_000).map(|number| entry(old + number * SECOND_NS, "old")).collect();
    let answer = push(&victim, "all-old", entries).expect(400);
    assert!(answer.len() < 64 << 10, "{} bytes", answer.len());
    assert!(stored(&victim, "all-old").is_empty());
    victim.survives();
}
