//! Queries that are meant to cost more than they may.

use std::thread;
use std::time::{Duration, Instant};

use super::Victim;
use crate::support::{Client, Reply, entry, now_ns, query, stream};

/// The answer to a range query over the last hour.
fn asked(client: &mut Client, text: &str) -> Reply {
    let form_type = [("Content-Type", "application/x-www-form-urlencoded")];
    let form = query::form(&[("query", text), ("since", "1h"), ("step", "60")]);
    let path = "/loki/api/v1/query_range";
    client.request("POST", path, &form_type, Some(form.as_bytes()))
}

/// `label_replace`, so many times, of a count of lines.
fn replaced(count: usize, replacement: &str) -> String {
    let open = "label_replace(".repeat(count);
    let close = format!(r#","app","{replacement}","app","(.*)")"#).repeat(count);
    format!(r#"{open}sum by (app) (count_over_time({{app="load"}}[1h])){close}"#)
}

#[test]
fn values_and_stages_that_multiply_are_refused_within_memory() {
    let victim = Victim::new(&["--cores", "2", "--limits.query-timeout", "20s"]);
    let now_ns = now_ns();
    let lines = (0..100).map(|number| entry(now_ns - number, format!("line {number}")));
    victim.server.client().push(&[stream(&[("app", "load")], lines.collect())]);
    let mut client = victim.server.client();
    let is_refused = |reply: &Reply| {
        let texts = ["is longer than 4194304 bytes", "larger than the max message size"];
        [400, 413].contains(&reply.status) && texts.iter().any(|text| reply.text().contains(text))
    };
    let reply = asked(&mut client, &replaced(30, "$1$1"));
    assert!(is_refused(&reply), "{}", reply.text());
    let nested = format!(
        r#"label_replace({},"app","{}","app","(.*)")"#,
        replaced(1, &"$1".repeat(40_000)),
        "$1".repeat(5_000)
    );
    let reply = asked(&mut client, &nested);
    assert!(is_refused(&reply), "{}", reply.text());
    asked(&mut client, &replaced(3, "$1$1")).expect(200);
    // Thousands of patterns, several queries of them at a time.
    let patterns = |number: usize| {
        let stages = (0..4_000).map(|stage| format!(" |~ `(?i){number}[a-z]{stage}`"));
        format!(r#"{{app="load"}}{}"#, stages.collect::<String>())
    };
    thread::scope(|scope| {
        let many: Vec<_> = (0..6)
            .map(|number| {
                let mut client = victim.server.client();
                scope.spawn(move || asked(&mut client, &patterns(number)))
            })
            .collect();
        let mut is_waiting = true;
        while is_waiting {
            let begun = Instant::now();
            victim.server.get("/ready").expect(200);
            assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
            is_waiting = many.iter().any(|one| !one.is_finished());
        }
        for one in many {
            let reply = one.join().expect("an answer");
            assert!([200, 400, 413, 429, 504].contains(&reply.status), "{}", reply.text());
        }
    });
    victim.survives();
}

#[test]
fn a_query_ends_in_time_wherever_it_is() {
    let victim = Victim::new(&["--cores", "2", "--limits.query-timeout", "1s"]);
    let now_ns = now_ns();
    let lines = (0..3_000).map(|number| entry(now_ns - number, "a b c d ".repeat(100)));
    victim.server.client().push(&[stream(&[("app", "load")], lines.collect())]);
    let mut client = victim.server.client();
    for text in [
        // While it is compiled, while it reads, and while it is merged.
        format!(r#"{{app="load"}}{}"#, " |~ `(?i)a[^x]{20}.*b`".repeat(5_000)),
        format!(
            r#"{{app="load"}}{}"#,
            r#" | line_format `{{ regexReplaceAll "(.)" __line__ "$1$1" }}`"#.repeat(200)
        ),
        vec![r#"count_over_time({app="load"}[1h])"#; 100].join(" or "),
    ] {
        let begun = Instant::now();
        let reply = asked(&mut client, &text);
        assert!(begun.elapsed() < Duration::from_secs(5), "{text:.90}: {:?}", begun.elapsed());
        assert!([200, 400, 413, 429, 504].contains(&reply.status), "{text:.90}: {}", reply.text());
    }
    victim.survives();
}

#[test]
fn costly_queries_are_refused_or_answered_in_bounded_time() {
    let victim = Victim::new(&["--cores", "2", "--limits.query-timeout", "2s"]);
    let now_ns = now_ns();
    let long = "a".repeat(10_000);
    let entries = (0..500).map(|number| entry(now_ns - number, format!("{number} {long}")));
    victim.server.client().push(&[stream(&[("app", "load")], entries.collect())]);
    let mut client = victim.server.client();
    let form_type = [("Content-Type", "application/x-www-form-urlencoded")];
    let mut status_of = |text: &str| {
        let form = query::form(&[("query", text), ("limit", "500")]);
        let path = "/loki/api/v1/query_range";
        let begun = std::time::Instant::now();
        let reply = client.request("POST", path, &form_type, Some(form.as_bytes()));
        assert!(begun.elapsed().as_secs() < 15, "{text:.100}: {:?}", begun.elapsed());
        assert!(reply.status == 200 || reply.body.len() < 10_000, "{text:.100}: {}", reply.text());
        reply.status
    };
    for (text, statuses) in [
        ("(".repeat(100_000), &[400][..]),
        (format!("{}1{}", "(".repeat(50_000), ")".repeat(50_000)), &[400]),
        (vec!["1"; 30_000].join("+"), &[200, 400]),
        (format!(r#"{{app="load"}}{}"#, r#" |= "a""#.repeat(10_000)), &[200, 400, 504]),
        (format!(r#"{{app="load"}} |= "{}""#, "a".repeat(140_000)), &[400]),
        (r#"{app="load"} |~ "((a{100}){100}){100}""#.to_owned(), &[400]),
        (r#"{app="load"} |~ "(a*)*(a*)*(a*)*(a*)*b""#.to_owned(), &[200]),
        (r#"{app=~"(a|aa)+$"}"#.to_owned(), &[200]),
        (format!(r#"{{app=~"{}"}}"#, "x?".repeat(30_000)), &[200, 400]),
        (r#"{app=~".*"}"#.to_owned(), &[400]),
        ("\u{0}\u{fffd}".to_owned(), &[400]),
        (r#"sum(count_over_time({app="load"}[10000000000y]))"#.to_owned(), &[200, 400]),
    ] {
        let status = status_of(&text);
        assert!(statuses.contains(&status), "{text:.100}: {status}");
    }
    let steps = [("query", r#"rate({app="load"}[1m])"#), ("step", "1ms")];
    let answer = client.get(&query::target("/loki/api/v1/query_range", &steps)).expect(400);
    assert!(answer.starts_with("exceeded maximum resolution of 11,000 points"), "{answer}");
    victim.survives();
}
