//! Tests of the subcommands against the fake server: it receives all lines of the source, the
//! ledger holds all acknowledged lines, and `verify` notices missing lines.

use crate::fake::{Fake, PushFate, Stored};
use crate::get::{self, GetArgs};
use crate::push::{self, PushArgs};
use crate::query::{self, QueryArgs};
use crate::report::PushReport;
use crate::source::{Source, SourceArgs};
use crate::testing::TempDir;
use crate::verify::{self, VerifyArgs};
use crate::window::Differences;
use clap::{Args, Parser};

#[derive(Parser)]
struct Cli<A: Args> {
    #[command(flatten)]
    args: A,
}

fn parse<A: Args>(fake: &Fake, args: &[&str]) -> A {
    Cli::parse_from([&["test", "--url", &fake.url, "--timeout", "10s"], args].concat()).args
}

const SMALL: [&str; 6] = ["--bytes", "400KB", "--body-bytes", "20KB", "--start", "1700000000"];

fn push(fake: &Fake, args: &[&str]) -> (PushReport, SourceArgs) {
    let mut push_args: PushArgs = parse(fake, &[&SMALL, args].concat());
    let report = push::run(&mut push_args).unwrap();
    (report, push_args.source)
}

fn verify(fake: &Fake, args: &[&str]) -> Differences {
    verify::run(&parse::<VerifyArgs>(fake, &[&SMALL, args].concat())).unwrap()
}

fn lines_of(source: &mut SourceArgs) -> Vec<Stored> {
    let source = Source::open(source).unwrap();
    let streams = source.streams().to_vec();
    let mut lines = Vec::new();
    for (stream, entries) in source.flat_map(|body| body.streams) {
        for entry in entries {
            lines.push(Stored {
                labels: streams[stream].clone(),
                unix_nanos: entry.unix_nanos,
                line: entry.line,
                metadata: entry
                    .metadata
                    .iter()
                    .map(|(n, v)| ((*n).to_owned(), v.clone()))
                    .collect(),
            });
        }
    }
    lines.sort_by_key(|line| line.unix_nanos);
    lines
}

#[test]
fn every_encoding_delivers_the_source() {
    for encoding in [
        &["--encoding", "protobuf"][..],
        &["--encoding", "protobuf", "--gzip", "--metadata"],
        &["--encoding", "json", "--metadata"],
        &["--encoding", "json", "--gzip", "--rate", "400"],
    ] {
        let fake = Fake::start(|_| PushFate::Accept);
        // Rounds of two or three bodies.
        let (report, mut source) = push(&fake, &[encoding, &["--prepare-bytes", "50KB"]].concat());
        let mut arrived = fake.with(|state| std::mem::take(&mut state.lines));
        arrived.sort_by_key(|line| line.unix_nanos);
        assert_eq!(arrived, lines_of(&mut source), "{encoding:?}");
        assert_eq!(report.tally.acked_lines as usize, arrived.len());
        let raw_bytes: usize = arrived
            .iter()
            .map(|line| {
                let pairs = line.metadata.iter().map(|(name, value)| name.len() + value.len());
                line.line.len() + pairs.sum::<usize>()
            })
            .sum();
        assert_eq!(report.tally.acked_raw_bytes as usize, raw_bytes);
        assert_eq!(report.tally.latencies.count(), report.tally.acked_bodies);
        assert_eq!(report.tally.outcomes["204"], report.tally.acked_bodies);
    }
}

#[test]
fn verify_finds_every_line_in_small_and_large_pages() {
    let fake = Fake::start(|_| PushFate::Accept);
    push(&fake, &["--metadata", "--tenant", "t1"]);
    for limit in ["7", "100", "5000"] {
        let result = verify(
            &fake,
            &["--metadata", "--tenant", "t1", "--limit", limit, "--connections", "2"],
        );
        assert_eq!((result.faults(), result.found), (0, result.expected), "{result:?}");
        assert!(result.expected > 1000);
    }
    fake.with(|state| assert!(state.tenants.iter().all(|t| t.as_deref() == Some("t1"))));
}

#[test]
fn verify_notices_lost_doubled_and_strange_lines() {
    let fake = Fake::start(|_| PushFate::Accept);
    push(&fake, &[]);
    fake.with(|state| {
        state.lines.remove(100);
        let line = state.lines[200].clone();
        state.lines.push(line);
        // Between two lines of the source, and many at one timestamp, so that pages
        // of any size are full.
        let line =
            Stored { unix_nanos: state.lines[300].unix_nanos + 1, ..state.lines[300].clone() };
        state.lines.extend(std::iter::repeat_n(line, 40));
    });
    let result = verify(&fake, &["--limit", "50"]);
    assert_eq!((result.missing, result.duplicates, result.unexpected), (1, 1, 40), "{result:?}");
}

#[test]
fn the_ledger_holds_what_was_acknowledged_and_nothing_else() {
    let folder = TempDir::new();
    let ledger = folder.path().join("ledger");
    let ledger = ledger.to_str().unwrap();
    // Without --retry, every third body is lost.
    let fake = Fake::start(|number| match number % 6 {
        0 => PushFate::Refuse(500),
        3 => PushFate::HangUp,
        _ => PushFate::Accept,
    });
    let (report, _) = push(&fake, &["--ledger", ledger]);
    assert!(report.tally.failed_bodies >= 6, "{}", report.tally.failed_bodies);
    assert_eq!(
        report.tally.outcomes["500"] + report.tally.outcomes["io"],
        report.tally.failed_bodies
    );
    let result = verify(&fake, &["--ledger", ledger]);
    assert_eq!(result.faults(), 0, "{result:?}");
    assert_eq!(result.found, report.tally.acked_lines);
    assert!(result.absent_unacknowledged > 0);
    // An acknowledged line that vanishes is a fault, also with the ledger.
    fake.with(|state| _ = state.lines.pop());
    assert_eq!(verify(&fake, &["--ledger", ledger]).missing, 1);
}

#[test]
fn retries_bring_everything_home() {
    let fake = Fake::start(|number| match number % 9 {
        2 => PushFate::Refuse(503),
        5 => PushFate::Refuse(429),
        8 => PushFate::HangUp,
        _ => PushFate::Accept,
    });
    let (report, _) = push(&fake, &["--retry", "--connections", "2"]);
    let tally = &report.tally;
    assert_eq!(tally.failed_bodies, 0);
    assert!(tally.retries >= 6, "{} retries", tally.retries);
    let refused = tally.outcomes["503"] + tally.outcomes["429"] + tally.outcomes["io"];
    assert_eq!(refused, tally.retries);
    assert_eq!(verify(&fake, &[]).faults(), 0);
}

#[test]
fn a_refusal_that_cannot_pass_later_is_not_repeated() {
    let fake = Fake::start(|_| PushFate::Refuse(400));
    let (report, _) = push(&fake, &["--retry"]);
    assert_eq!((report.tally.retries, report.tally.acked_bodies), (0, 0));
    assert!(report.to_text().contains("400: refused by the test"), "{}", report.to_text());
}

#[test]
fn queries_are_counted_and_their_errors_shown() {
    let fake = Fake::start(|_| PushFate::Accept);
    push(&fake, &[]);
    let args: QueryArgs = parse(
        &fake,
        &[
            "--query",
            "{job=\"bench\"}",
            "--query",
            "{job=",
            "--start",
            "1700000000",
            "--end",
            "1700000100",
            "--limit",
            "10",
            "--count",
            "7",
            "--connections",
            "3",
        ],
    );
    let reports = query::run(&args).unwrap();
    assert_eq!((reports[0].latencies.count(), reports[0].errors), (7, 0));
    assert!(reports[0].response_bytes > 1000, "{}", reports[0].response_bytes);
    assert_eq!((reports[1].latencies.count(), reports[1].errors), (0, 7));
    assert_eq!(reports[1].first_error.as_deref(), Some("400: parse error"));
}

#[test]
fn gets_are_pipelined_and_counted_by_status() {
    let fake = Fake::start(|_| PushFate::Accept);
    let args: GetArgs = parse(
        &fake,
        &["--connections", "3", "--threads", "2", "--pipeline", "8", "--duration", "50ms"],
    );
    let report = get::run(&args).unwrap();
    let requests = fake.with(|state| state.tenants.len() as u64);
    assert_eq!(report.statuses.get(&200).copied(), Some(requests));
    assert_eq!(report.latencies.count(), requests);
    assert!(requests >= 24, "{requests}");
    let args: GetArgs = parse(&fake, &["--path", "/nothing", "--duration", "1ms"]);
    assert!(get::run(&args).unwrap().statuses.contains_key(&404));
}
