//! The memory of a compiled query is estimated within a factor of about two.

#![expect(unsafe_code, reason = "counting what is allocated needs an allocator")]

mod counting;

use logsvc_logql::engine::testing::{Columns, TestEntry};
use logsvc_logql::engine::{Estimate, LeafExecutor, Plan, QueryParams};
use logsvc_logql::syntax;
use logsvc_proto::Labels;

/// The value that `make` returns, and its heap memory in bytes.
fn held<T>(make: impl FnOnce() -> T) -> (T, u64) {
    let (made, held_bytes, _) = counting::measured(make);
    (made, u64::try_from(held_bytes).unwrap_or(0))
}

/// `{job="load"}` with so many stages; `%` in them is their number.
fn repeated(stage: &str, count: usize) -> String {
    let stages = (0..count).map(|number| stage.replace('%', &number.to_string()));
    format!("{{job=\"load\"}}{}", stages.collect::<String>())
}

fn plan(query: &str) -> Plan {
    let expr = syntax::parse(query).expect("a query");
    Plan::new(&expr, &QueryParams::range(0, 1_000_000_000, 1_000_000_000)).expect("a plan")
}

const STAGES: [&str; 34] = [
    " |~ `l[a-z]+l=.*%?`",
    " | msg=~`what.*%?`",
    " |= `a`",
    " |= `a% and something`",
    " |= `a%` or `b%` or `c%`",
    " |~ `a.%b+`",
    " |~ `(?i)ab[0-9]%`",
    " |~ `a%|b%|cd+%`",
    " |~ `^[a-z]+ %$`",
    r" |~ `\pL+ %`",
    r" |~ `\d{3} .* \w+ %`",
    " |~ `[^x]{30}%`",
    r#" | line_format "{{.a%}}""#,
    r#" | line_format "{{ .a | upper | lower | trunc 5 }} and {{.b}}""#,
    r#" | line_format "{{ regexReplaceAll \"a+%\" .b \"x\" }}""#,
    r#" | label_format a%="{{.b}}""#,
    " | label_format a=b%",
    " | json",
    " | logfmt",
    " | a=`b`",
    " | a%=`b`",
    " | a=~`b.+%`",
    " | a=~`b%|c%`",
    " | a>5",
    " | json a%=`b`",
    " | logfmt a%=`b`",
    " | pattern `<a%> <b> x`",
    " | regexp `(?P<a%>b+)`",
    " | regexp `(?P<a%>.*?) (?P<b%>\\S+)`",
    " | unpack",
    " | decolorize",
    " | drop a%",
    " | keep a%=~`b+`",
    " | logfmt | a%=`b`",
];

#[test]
fn what_a_compiled_leaf_holds_is_estimated_within_a_factor_of_about_two() {
    let entries: Vec<TestEntry> = (0..20)
        .map(|i: i64| TestEntry {
            timestamp_ns: i,
            line: format!("level=info id={i} a{i}=b msg=\"what a line says\"").into_bytes(),
            metadata: Vec::new(),
        })
        .collect();
    let columns = Columns::new(&entries, true);
    let labels = Labels::from_pairs([("job", "load")]).expect("labels");
    let mut off = Vec::new();
    for stage in STAGES {
        let query = repeated(stage, 300);
        for query in [query.clone(), format!("sum by (job) (count_over_time({query} [1s]))")] {
            let plan = plan(&query);
            let leaf = &plan.leaves()[0];
            // Makes the statics that all leaves share.
            drop(LeafExecutor::new(leaf));
            let (mut executor, compiled_bytes) =
                held(|| LeafExecutor::new(leaf).expect("compiles"));
            let (_, used_bytes) = held(|| {
                let mut stream = executor.stream(&labels);
                executor.block(&mut stream, &columns.block(0));
            });
            let bytes = compiled_bytes + used_bytes;
            let estimated = leaf.estimate();
            let is_near = estimated.bytes * 5 / 2 + (64 << 10) >= bytes
                && (query.starts_with("sum") || estimated.bytes <= bytes * 5 / 2 + (64 << 10));
            if !is_near {
                off.push(format!("{query:.80}: {bytes} bytes, estimated {}", estimated.bytes));
            }
        }
    }
    assert!(off.is_empty(), "{off:#?}");
}

#[test]
fn a_tree_holds_no_more_than_is_estimated_of_its_text() {
    for stage in STAGES {
        for count in [10, 2_000] {
            let query = repeated(stage, count);
            if query.len() > 130_000 {
                continue;
            }
            let estimated = Estimate::of_text(&query).bytes;
            let (parsed, bytes) = held(|| syntax::parse(&query));
            assert!(parsed.is_ok() && bytes <= estimated, "{query:.80}: {bytes} > {estimated}");
        }
    }
}
