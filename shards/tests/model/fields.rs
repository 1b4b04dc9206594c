//! Questions about fields of sealed entries: lines are not put together for those of lines, and
//! not read where metadata alone tells. The answers and what counts as read are the same.

use logsvc_logql::engine::QueryParams;
use logsvc_logql::engine::testing::TestEntry;
use logsvc_runtime::sim::Simulation;
use logsvc_shards::shard::SealPolicy;
use logsvc_shards::wal::writer::WalConfig;

use crate::cluster::{Cluster, Upkeep};
use crate::data::{SECOND_NS, time};
use crate::life::Life;
use crate::queries::{Query, Tally, compare};

const START_NS: i64 = 1_795_000_000_123_456_789;
const ENTRIES: i64 = 1200;
const STEP_NS: i64 = 1_700_000_000;

#[derive(Clone, Copy, Debug)]
enum Style {
    Json,
    Logfmt,
    Access,
}

fn line(style: Style, number: i64, timestamp_ns: i64) -> String {
    let (status, took) = (200 + number * 7 % 400, number * 31 % 977);
    let method = ["GET", "POST", "PUT"][number as usize * 13 % 3];
    let (at, id) = (time(timestamp_ns), number.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64));
    if number % 50 == 0 {
        return format!("panic at {at}: \"x{number}");
    }
    match style {
        Style::Json => format!(
            "{{\"ts\":\"{at}\",\"method\":\"{method}\",\"status\":{status},\"took\":\"{took}ms\",\
             \"id\":\"{id:016x}\",\"more\":{{\"n\":{took},\"list\":[{status},{took}]}}}}"
        ),
        Style::Logfmt => format!(
            "ts={at} method={method} status={status} took={took}ms id={id:016x} msg=\"n {took} of\""
        ),
        Style::Access => {
            format!("10.1.{}.{} [{at}] \"{method} /a/{id:x}\" {status} {took}", took % 7, took % 9)
        }
    }
}

fn entries(style: Style) -> Vec<(usize, TestEntry)> {
    let entry = |number: i64| {
        let timestamp_ns = START_NS + number * STEP_NS;
        let metadata = match number % 4 {
            0 => vec![("method".to_owned(), "meta".to_owned())],
            _ => Vec::new(),
        };
        let line = line(style, number, timestamp_ns).into_bytes();
        (0, TestEntry { timestamp_ns, line, metadata })
    };
    (0..ENTRIES).map(entry).collect()
}

/// A node without a cache: lines that are in the cache as a whole are not read in parts.
fn start(simulation: &Simulation) -> Cluster<'_> {
    let upkeep = Upkeep { cache_max_bytes: 0, ..SealPolicy::ON_REQUEST.into() };
    Cluster::start_sealing(simulation, 1, WalConfig::default(), upkeep).expect("a healthy disk")
}

fn pipelines(style: Style) -> &'static [&'static str] {
    match style {
        Style::Json => &["| json", "| json | __error__=\"\"", "| json | more_n>=500"],
        Style::Logfmt => &["| logfmt", "| logfmt | __error__=\"\"", "| logfmt | msg=~\"n 1.*\""],
        Style::Access => &[r#"| pattern `<_>] "<method> <path>" <status> <took>`"#],
    }
}

#[test]
fn fields_of_sealed_lines_are_found_without_the_lines() {
    for style in [Style::Json, Style::Logfmt, Style::Access] {
        let simulation = Simulation::new(1);
        let mut life = Life::new(&simulation, 1);
        let cluster = start(&simulation);
        let entries = entries(style);
        let line_bytes: u64 = entries.iter().map(|(_, entry)| entry.line.len() as u64).sum();
        assert!(life.push_entries(&cluster, entries));
        assert!(life.flush(&cluster, true));
        let tenant = life.model.streams[0].definition.tenant.clone();
        let store = life.model.store(&tenant);
        let end_ns = START_NS + ENTRIES * STEP_NS;
        for pipeline in pipelines(style) {
            let logs = format!("{{s=\"0\"}} {pipeline}");
            for (query, is_parsed) in [
                (format!("sum by (method) (count_over_time({logs} [1h]))"), true),
                (format!("sum by (method) (count_over_time({logs} | status>=500 [1h]))"), true),
                (format!("sum(count_over_time({logs} | status=\"500\" or took!=\"\" [1h]))"), true),
                (format!("sum by (method) (sum_over_time({logs} | unwrap status [1h]))"), true),
                (format!("max_over_time({logs} | unwrap status [1h]) by (method)"), true),
                (format!("sum(bytes_over_time({logs} | status>=500 [1h]))"), false),
            ] {
                let mut tally = Tally::default();
                let params = QueryParams::range(end_ns, end_ns, SECOND_NS);
                let all = Query { text: query.clone(), params };
                compare(&cluster, &tenant, &store, &all, &mut tally);
                assert_eq!(tally.stats.sealed_entries, ENTRIES as u64, "{query}");
                assert_eq!(tally.stats.sealed_line_bytes, line_bytes, "{query}");
                assert_eq!(tally.stats.blocks_searched > 0, is_parsed, "{query} {tally:?}");
                // Windows that begin and end within blocks.
                let params = QueryParams::range(START_NS, end_ns, 170 * SECOND_NS);
                let text = query.replace("[1h]", "[3m]");
                compare(&cluster, &tenant, &store, &Query { text, params }, &mut tally);
                assert_eq!(tally.holes, 0);
            }
        }
        cluster.stop().expect("a healthy disk");
    }
}

/// An id that is metadata of the entry with this number.
fn trace_id(number: u64) -> String {
    let half = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    format!("{half:016x}{:016x}", half.rotate_left(23) ^ number)
}

#[test]
fn metadata_rules_blocks_out_that_filters_let_pass() {
    const ABSENT: u64 = 3000;
    let simulation = Simulation::new(1);
    let mut life = Life::new(&simulation, 1);
    let cluster = start(&simulation);
    let entry = |(number, (stream, mut entry)): (u64, (usize, TestEntry))| {
        // Some entries have other metadata, or none.
        if number % 3 != 0 {
            entry.metadata = vec![("trace_id".to_owned(), trace_id(number))];
        }
        (stream, entry)
    };
    let entries: Vec<_> = (0..).zip(entries(Style::Logfmt)).map(entry).collect();
    let line_bytes: u64 = entries.iter().map(|(_, entry)| entry.line.len() as u64).sum();
    assert!(life.push_entries(&cluster, entries));
    assert!(life.flush(&cluster, true));
    let tenant = life.model.streams[0].definition.tenant.clone();
    let store = life.model.store(&tenant);
    let end_ns = START_NS + ENTRIES * STEP_NS;
    let ask = |filter: &str, from_ns: i64, tally: &mut Tally| {
        let params = QueryParams::range(from_ns, end_ns, SECOND_NS);
        let query = Query { text: format!("{{s=\"0\"}} | {filter}"), params };
        compare(&cluster, &tenant, &store, &query, tally);
    };
    let mut tally = Tally::default();
    for number in 0..40 {
        let id = trace_id(number);
        ask(&format!("trace_id=\"{id}\""), START_NS, &mut tally);
        ask(&format!("trace_id=\"{id}\" | method=\"meta\""), START_NS, &mut tally);
        ask(&format!("trace_id=\"{id}\" or trace_id=\"\""), START_NS, &mut tally);
        ask(&format!("s=\"0\" | trace_id=\"{id}\""), START_NS + 9 * SECOND_NS, &mut tally);
        ask(&format!("logfmt | trace_id=\"{id}\""), START_NS, &mut tally);
    }
    assert!(tally.empty > 40 && tally.queries - tally.empty > 40, "{tally:?}");
    let mut passed = 0;
    for number in 0..ABSENT {
        let mut tally = Tally::default();
        ask(&format!("trace_id=\"{}\"", trace_id(1 << 40 | number)), START_NS, &mut tally);
        if tally.stats.sealed_blocks > 0 {
            passed += 1;
            assert_eq!(tally.stats.sealed_entries, ENTRIES as u64, "{tally:?}");
            assert_eq!(tally.stats.sealed_line_bytes, line_bytes, "{tally:?}");
            assert!(tally.stats.decoded_bytes < line_bytes, "{tally:?}");
        }
    }
    // The filters let one in some hundred pass.
    assert!((1..ABSENT / 50).contains(&passed), "{passed}");
    cluster.stop().expect("a healthy disk");
}
