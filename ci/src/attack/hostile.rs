//! Hostile requests. Each is one of its kind: a request of some kilobytes that makes the server
//! take memory, or time, out of proportion to the stored data.

use super::http::{Request, connect, query_form, send};
use super::monitor::nanos_now;
use anyhow::{Result, ensure};
use std::fmt::Write as _;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Lines of one push.
const LINES_OF_A_PUSH: usize = 3000;

/// How long a push that prepares an attack may take.
const PUSH_LIMIT: Duration = Duration::from_secs(20);

/// One attack.
#[derive(Debug)]
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// Memory that the server may take, with its code, in MB of 10^6 bytes.
    pub(super) ceiling_mb: u64,
    /// Lines that are stored before.
    pub(super) lines: usize,
    pub(super) what: What,
}

/// The requests of an attack.
#[derive(Debug)]
pub(super) enum What {
    /// A query. Each of the queries that are sent at once has another selector of the same lines in
    /// the place of `SELECTOR`, so that they share no run.
    Query(String),
    /// Connections that each announce a body of this length, send a kilobyte, and wait.
    SlowBodies { connections: usize, announced_bytes: u64 },
    /// So many tenants that push one line each.
    Tenants(usize),
}

/// All attacks.
pub(super) fn attacks() -> Vec<Attack> {
    let query =
        |name, lines, query| Attack { name, ceiling_mb: 512, lines, what: What::Query(query) };
    let count = "sum by (job) (count_over_time(SELECTOR[1h]))";
    let replaced = |times: usize, replace: &str| {
        format!("{}{count}{}", "label_replace(".repeat(times), replace.repeat(times))
    };
    let widened = format!(
        r#"label_replace(label_replace({count},"a","{}","job","(.*)"),"b","{}","a","(.*)")"#,
        "$1".repeat(40_000),
        "$1".repeat(5_000)
    );
    let chain = |stage: &str, times: usize| format!("SELECTOR{}", stage.repeat(times));
    let label_format = r#" | label_format a="{{.a}}{{.a}}""#;
    vec![
        query("line_format doubles", 1, chain(r#" | line_format "{{__line__}}{{__line__}}""#, 30)),
        query(
            "label_format doubles",
            1,
            format!(r#"SELECTOR | label_format a="xxxxxxxxxx"{}"#, label_format.repeat(30)),
        ),
        query(
            "replacements double",
            1,
            chain(r#" | line_format `{{regexReplaceAll "(.*)" __line__ "$1$1"}}`"#, 30),
        ),
        query("label_replace doubles", 1, replaced(30, r#","job","$1$1","job","(.*)")"#)),
        query("label_replace widens", 1, widened),
        query(
            "topk over unique lines",
            150_000,
            "topk(10, count_over_time(SELECTOR | logfmt [1h]))".to_owned(),
        ),
        query(
            "quantiles of unique lines",
            150_000,
            "quantile_over_time(0.9, SELECTOR | logfmt | unwrap n [1h])".to_owned(),
        ),
        query("9,000 stages", 1, chain(r#"|~"a{9}b""#, 9_000)),
        query(
            "repeat",
            60_000,
            r#"SELECTOR | line_format "{{ repeat 1000000000 \"a\" }}""#.to_owned(),
        ),
        query(
            "alignRight",
            60_000,
            r#"SELECTOR | line_format "{{ alignRight 1000000000 \"a\" }}""#.to_owned(),
        ),
        Attack {
            name: "slow bodies",
            ceiling_mb: 512,
            lines: 1,
            what: What::SlowBodies { connections: 400, announced_bytes: 90_000_000 },
        },
        Attack { name: "tenants", ceiling_mb: 64, lines: 0, what: What::Tenants(20_000) },
    ]
}

/// Stores `lines` different lines over most of the last hour.
pub(super) fn load(port: u16, lines: usize) -> Result<()> {
    const RANGE_NANOS: u128 = 2_900_000_000_000;
    let start = nanos_now() - RANGE_NANOS - 60_000_000_000;
    let between = RANGE_NANOS / (lines.max(1) as u128);
    let mut next = 0;
    while next < lines {
        let end = lines.min(next + LINES_OF_A_PUSH);
        let mut json = r#"{"streams":[{"stream":{"job":"load"},"values":["#.to_owned();
        for line in next..end {
            let comma = if line == next { "" } else { "," };
            let (nanos, words) = (start + between * line as u128, "w".repeat(line % 120));
            let number = line % 977;
            write!(json, r#"{comma}["{nanos}","level=info id={line} n={number} msg={words}"]"#)?;
        }
        json.push_str("]}]}");
        let answer = send(port, &Request::push("attack", &json), PUSH_LIMIT)?;
        ensure!(answer.status == 204, "a push was answered {}: {}", answer.status, answer.text);
        next = end;
    }
    Ok(())
}

/// How an attack went on.
#[derive(Debug)]
pub(super) struct Outcome {
    /// How long the slowest request took.
    pub(super) slowest: Duration,
    /// A line for people.
    pub(super) text: String,
}

/// Attacks `at_once` times at once, and returns the outcome. All of it ends within about `limit`.
///
/// # Errors
/// A request got no answer.
pub(super) fn run(what: &What, port: u16, at_once: usize, limit: Duration) -> Result<Outcome> {
    match what {
        What::Query(query) => ask(query, port, at_once, limit),
        What::SlowBodies { connections, announced_bytes } => {
            slow_bodies(port, *connections, *announced_bytes, limit)
        }
        What::Tenants(count) => tenants(port, *count, at_once.max(16), limit),
    }
}

fn ask(query: &str, port: u16, at_once: usize, limit: Duration) -> Result<Outcome> {
    let forms = (0..at_once).map(|number| {
        query_form(&query.replace("SELECTOR", &format!(r#"{{job="load"}}!="nothing {number}""#)))
    });
    let threads: Vec<_> = forms
        .map(|form| std::thread::spawn(move || send(port, &Request::query(&form), limit)))
        .collect();
    let answers: Vec<_> =
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect();
    let answers = answers.into_iter().collect::<Result<Vec<_>>>()?;
    let slowest = answers.iter().map(|answer| answer.took).max().unwrap_or_default();
    let mut statuses: Vec<u16> = answers.iter().map(|answer| answer.status).collect();
    statuses.sort_unstable();
    let of_each = statuses.chunk_by(u16::eq).map(|same| format!("{} x {}", same.len(), same[0]));
    let refusal = answers.iter().find(|answer| answer.status != 200);
    let why = refusal.map_or("", |answer| answer.text.trim());
    let why: String = why.chars().take(90).collect();
    Ok(Outcome { slowest, text: format!("{} {why}", of_each.collect::<Vec<_>>().join(", ")) })
}

/// Connections that announce more than they send, kept open to the end.
fn slow_bodies(port: u16, connections: usize, announced: u64, limit: Duration) -> Result<Outcome> {
    const HELD: Duration = Duration::from_secs(3);
    let head = format!(
        "POST /loki/api/v1/push HTTP/1.1\r\nHost: localhost\r\n\
         Content-Type: application/json\r\nContent-Length: {announced}\r\n\r\n{}",
        " ".repeat(1024)
    );
    let open = || -> Result<TcpStream> {
        let mut stream = connect(port, limit)?;
        // A server that has enough of them may have closed it.
        let _ = stream.write_all(head.as_bytes());
        Ok(stream)
    };
    let held = (0..connections).map(|_| open()).collect::<Result<Vec<_>>>()?;
    std::thread::sleep(HELD.min(limit));
    let text = format!("{} connections that announced {} MB", held.len(), announced / 1_000_000);
    Ok(Outcome { slowest: Duration::ZERO, text })
}

/// `count` tenants push one line each, over `connections` connections.
fn tenants(port: u16, count: usize, connections: usize, limit: Duration) -> Result<Outcome> {
    let each = count / connections;
    let begun = Instant::now();
    let pusher = move |connection: usize| -> Result<(usize, Duration)> {
        let (mut stored, mut slowest) = (0, Duration::ZERO);
        for number in 0..each {
            if begun.elapsed() > limit {
                break;
            }
            let nanos = nanos_now();
            let json = format!(
                r#"{{"streams":[{{"stream":{{"job":"one"}},"values":[["{nanos}","a line"]]}}]}}"#
            );
            let tenant = format!("tenant-{connection}-{number}-{}", "x".repeat(110));
            let answer = send(port, &Request::push(&tenant, &json), limit)?;
            stored += usize::from(answer.status == 204);
            slowest = slowest.max(answer.took);
        }
        Ok((stored, slowest))
    };
    let threads: Vec<_> =
        (0..connections).map(|number| std::thread::spawn(move || pusher(number))).collect();
    let mut outcome = Outcome { slowest: Duration::ZERO, text: String::new() };
    let mut all = 0;
    for thread in threads {
        let (stored, slowest) = thread.join().expect("it does not panic")?;
        all += stored;
        outcome.slowest = outcome.slowest.max(slowest);
    }
    outcome.text = format!("{all} tenants of {count} were taken");
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_as_long_as_they_may_be() {
        for attack in attacks() {
            if let What::Query(query) = attack.what {
                assert!(query.len() < 131_000, "{}: {}", attack.name, query.len());
                assert!(query.contains("SELECTOR"), "{}", attack.name);
            }
        }
    }
}
