//! Queries that are meant to cost more than they may.

use super::Victim;
use crate::support::{entry, now_ns, query, stream};

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
        (format!(r#"{{app="load"}}{}"#, r#" |= "a""#.repeat(10_000)), &[200, 400]),
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
