//! Attacks the built server: requests of some kilobytes that ask for more memory or time than a
//! client may have, one at a time, many at once, and beside other programs that take all CPUs.
//!
//! Guarantees: each round has a time limit, and a server far above its memory ceiling is
//! killed. The check fails if a request is neither answered nor refused soon, if memory besides
//! code exceeds what the ceiling leaves for it, if `/ready` or pushes stall or are refused meanwhile, or if the server ends.
//!
//! [`costs`] is the other half: the most that each stage and function may cost, and whether
//! other clients notice.

mod costs;
mod hostile;
mod http;
mod loops;
mod monitor;

use crate::server::{DataFolder, Server, free_ports};
use anyhow::{Result, bail};
use hostile::{Attack, What};
use http::{Request, send};
use loops::BusyLoops;
use monitor::{Monitor, Seen, Watched, percentile};
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

/// Longest time until a request is answered or refused.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// [`ANSWER_LIMIT`] beside programs that leave the server a third of the machine.
const ANSWER_LIMIT_BESIDE_LOOPS: Duration = Duration::from_secs(15);

/// Longest time until `/ready` answers, under any load.
const READY_LIMIT: Duration = Duration::from_millis(200);

/// Longest time until a push is stored, under any load.
const PUSH_LIMIT: Duration = Duration::from_secs(2);

/// Longest time of a round. A longer round has failed.
const ROUND_LIMIT: Duration = Duration::from_secs(20);

/// What is left of a ceiling for code. The rest is the limit for all other memory.
const CODE_MB: u64 = 20;

/// How long a server may take until it is ready.
const START_LIMIT: Duration = Duration::from_secs(10);

/// How an attack is made.
#[derive(Clone, Copy, Debug)]
struct Round {
    at_once: usize,
    loops: usize,
}

const ROUNDS: [Round; 3] = [
    Round { at_once: 1, loops: 0 },
    Round { at_once: 16, loops: 0 },
    Round { at_once: 16, loops: 2 },
];

/// Runs all attacks whose names contain `only`, and the costs if that is empty or `costs`.
pub(crate) fn check(binary: &Path, only: &str) -> Result<()> {
    if !binary.is_file() {
        bail!("{} is missing: cargo build --release --bin logsvc", binary.display());
    }
    let mut failures = Vec::new();
    for attack in hostile::attacks().iter().filter(|attack| attack.name.contains(only)) {
        failures.extend(seen_twice(attack.name, || run(binary, attack)));
    }
    if "costs".contains(only) {
        failures.extend(seen_twice("costs", || costs::check(binary)));
    }
    if failures.is_empty() {
        println!("ci: the server stood all attacks");
        return Ok(());
    }
    bail!("{} of the attacks did harm:\n  {}", failures.len(), failures.join("\n  "))
}

/// The harm that an attack does each of two times. A machine that has something else to do is
/// late once; a server that lets others suffer is late again.
fn seen_twice(name: &str, attack: impl Fn() -> Result<Vec<String>>) -> Vec<String> {
    let harm = || attack().unwrap_or_else(|error| vec![format!("{name}: {error:#}")]);
    let first = harm();
    if first.is_empty() {
        return first;
    }
    println!("  once more, because of: {}", first.join("; "));
    harm()
}

/// A server that is attacked.
struct Target {
    server: Server,
    port: u16,
    _data: DataFolder,
}

impl Target {
    fn start(binary: &Path, ceiling_mb: u64, more: &[&str]) -> Result<Target> {
        let data = DataFolder::create("attack")?;
        let (port, _) = free_ports()?;
        let mut arguments: Vec<OsString> = vec![
            "--server.http-listen-address=127.0.0.1".into(),
            format!("--server.http-listen-port={port}").into(),
            format!("--memory.max-bytes={ceiling_mb}MB").into(),
        ];
        arguments.extend(more.iter().map(|argument| OsString::from(*argument)));
        let arguments: Vec<_> = arguments.iter().map(OsString::as_os_str).collect();
        let mut server = Server::start(binary, &arguments, &data.0)?;
        server.wait_until_listening(port)?;
        wait_until_ready(port)?;
        Ok(Target { server, port, _data: data })
    }

    fn watched(&self, ceiling_mb: u64, round_limit: Duration) -> Watched {
        let ceiling_bytes = ceiling_mb * 1_000_000;
        Watched { port: self.port, pid: self.server.pid(), ceiling_bytes, round_limit }
    }
}

fn wait_until_ready(port: u16) -> Result<()> {
    let end = Instant::now() + START_LIMIT;
    loop {
        match send(port, &Request::get("/ready"), START_LIMIT) {
            Ok(answer) if answer.status == 200 => return Ok(()),
            _ if Instant::now() < end => std::thread::sleep(Duration::from_millis(5)),
            Ok(answer) => bail!("the server is not ready: {}", answer.text.trim()),
            Err(error) => return Err(error.context("the server is not ready")),
        }
    }
}

/// All rounds of an attack; returns the faults.
fn run(binary: &Path, attack: &Attack) -> Result<Vec<String>> {
    let more: &[&str] = match attack.what {
        What::Tenants(_) => &["--auth.enabled=true"],
        _ => &[],
    };
    let target = Target::start(binary, attack.ceiling_mb, more)?;
    hostile::load(target.port, attack.lines)?;
    let mut failures = Vec::new();
    for round in ROUNDS {
        let name =
            format!("{}, {} at once, beside {} loops", attack.name, round.at_once, round.loops);
        let loops = BusyLoops::start(round.loops);
        let monitor = Monitor::start(target.watched(attack.ceiling_mb, ROUND_LIMIT));
        let outcome = hostile::run(&attack.what, target.port, round.at_once, ROUND_LIMIT);
        let seen = monitor.finish();
        drop(loops);
        let (slowest, text) = match outcome {
            Ok(outcome) => (Some(outcome.slowest), outcome.text),
            Err(error) => (None, format!("no answer: {error:#}")),
        };
        let took = slowest.map_or_else(|| "?".to_owned(), milliseconds);
        println!(
            "{name}: {took} ms, {}; peak {} MB; /ready {} ms at most; {} pushes, {} ms at most",
            text.trim(),
            seen.peak_bytes / 1_000_000,
            milliseconds(percentile(&seen.ready, 1.0)),
            seen.pushes.len(),
            milliseconds(percentile(&seen.pushes, 1.0)),
        );
        let harm = harm(attack, round, slowest, &seen);
        if !harm.is_empty() {
            println!("  FAILED: {}", harm.join("; "));
            failures.push(format!("{name}: {}", harm.join("; ")));
        }
        if seen.ended.is_some() {
            break;
        }
    }
    Ok(failures)
}

/// The faults of a round.
fn harm(attack: &Attack, round: Round, slowest: Option<Duration>, seen: &Seen) -> Vec<String> {
    let mut harm = Vec::new();
    let limit = if round.loops > 0 { ANSWER_LIMIT_BESIDE_LOOPS } else { ANSWER_LIMIT };
    match slowest {
        None => harm.push("a request got no answer".to_owned()),
        Some(slowest) if slowest > limit => {
            harm.push(format!("an answer took {} ms", milliseconds(slowest)));
        }
        Some(_) => {}
    }
    let limit_mb = attack.ceiling_mb - CODE_MB;
    if seen.peak_bytes > limit_mb * 1_000_000 {
        let peak_mb = seen.peak_bytes / 1_000_000;
        harm.push(format!("{peak_mb} MB of memory instead of {limit_mb} at most"));
    }
    for (what, took, limit) in
        [("/ready", &seen.ready, READY_LIMIT), ("a push", &seen.pushes, PUSH_LIMIT)]
    {
        let slowest = percentile(took, 1.0);
        if slowest > limit {
            harm.push(format!("{what} took {} ms", milliseconds(slowest)));
        }
        if took.is_empty() {
            harm.push(format!("{what} was never answered"));
        }
    }
    if let Some(first) = &seen.first_refusal {
        let first: String = first.chars().take(120).collect();
        harm.push(format!("{} of /ready and of pushes failed: {first}", seen.refused));
    }
    harm.extend(seen.ended.clone());
    harm
}

fn milliseconds(duration: Duration) -> String {
    format!("{:.1}", duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harm_that_is_done_again_counts() {
        let times = std::cell::Cell::new(0);
        let harm = |bad_times: u32| {
            times.set(0);
            let attack = || {
                times.set(times.get() + 1);
                Ok(vec!["late".to_owned(); usize::from(times.get() <= bad_times)])
            };
            (seen_twice("a", attack).len(), times.get())
        };
        assert_eq!([0, 1, 2].map(harm), [(0, 1), (0, 2), (1, 2)]);
        assert_eq!(seen_twice("a", || bail!("gone")), ["a: gone"]);
    }

    #[test]
    fn harm_is_seen() {
        let attack =
            Attack { name: "a", ceiling_mb: 10 + CODE_MB, lines: 0, what: What::Tenants(1) };
        let ms = Duration::from_millis;
        let seen = || Seen {
            ready: vec![ms(1), ms(199)],
            pushes: vec![ms(1999)],
            peak_bytes: 10_000_000,
            ..Seen::default()
        };
        let harm_of =
            |loops, slowest, seen: &Seen| harm(&attack, Round { at_once: 1, loops }, slowest, seen);
        assert!(harm_of(0, Some(ms(4999)), &seen()).is_empty());
        assert!(harm_of(2, Some(ms(14_999)), &seen()).is_empty());
        assert_eq!(harm_of(0, None, &seen()), ["a request got no answer"]);
        assert_eq!(harm_of(0, Some(ms(5001)), &seen()), ["an answer took 5001.0 ms"]);
        let slow = Seen { ready: vec![ms(201)], ..seen() };
        assert_eq!(harm_of(0, Some(ms(1)), &slow), ["/ready took 201.0 ms"]);
        let slow = Seen { pushes: vec![], ..seen() };
        assert_eq!(harm_of(0, Some(ms(1)), &slow), ["a push was never answered"]);
        let large = Seen { peak_bytes: 11_000_000, ..seen() };
        assert_eq!(harm_of(0, Some(ms(1)), &large), ["11 MB of memory instead of 10 at most"]);
        let refused = Seen { refused: 3, first_refusal: Some("429".to_owned()), ..seen() };
        assert_eq!(harm_of(0, Some(ms(1)), &refused), ["3 of /ready and of pushes failed: 429"]);
        let ended = Seen { ended: Some("gone".to_owned()), ..seen() };
        assert_eq!(harm_of(0, Some(ms(1)), &ended), ["gone"]);
    }
}
