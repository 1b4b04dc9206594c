//! An [`EntryMatcher`] agrees with the log query that runs on each entry alone, whatever the
//! stages are, with shortcuts and without, in order of time or not.

use logsvc_logql::engine::testing::{Columns, Layout, TestEntry, TestStore};
use logsvc_logql::engine::{
    Direction, EntryBlock, EntryMatcher, MetadataColumn, Plan, QueryParams, QueryResult, Unlimited,
    depends_on_clock,
};
use logsvc_logql::syntax::ast::{Expr, LogExpr, MatchOp, Matcher, Selector, Text};
use logsvc_logql::syntax::parse;
use logsvc_logql::testing::{Generator, Rng};
use logsvc_proto::Labels;

const SECOND_NS: i64 = 1_000_000_000;
const END_NS: i64 = 60 * SECOND_NS;

const STAGES: [&str; 28] = [
    r#"|= "a""#,
    r#"!= "500""#,
    r#"|~ "(?i)ERROR|GET""#,
    r#"|> "<_>GET<_>""#,
    r#"|= ip("10.0.0.0/8")"#,
    "| json",
    r#"| json v="o.v", status"#,
    "| logfmt",
    "| logfmt --strict --keep-empty",
    r#"| pattern "<verb> <path> <status>""#,
    r#"| regexp `(?P<verb>[A-Z]+) (?P<path>/\w+)`"#,
    "| unpack",
    "| decolorize",
    "| status >= 500",
    r#"| status = "500""#,
    r#"| level =~ "err.*|warn" or status > 200"#,
    r#"| took > 20ms and level != "info""#,
    r#"| addr = ip("10.0.0.0/8")"#,
    r#"| trace = "1""#,
    r#"| env_extracted = "collides""#,
    r#"| __error__ = """#,
    r#"| __error__ != "JSONParserErr""#,
    r#"| line_format "{{.level}} {{.status | ToUpper}}""#,
    r#"| line_format "{{div 1 .status}}""#,
    r#"| label_format lvl=level, x="{{.status}}0""#,
    "| drop level, __error__",
    "| json | status >= 500",
    r#"| logfmt | level="error""#,
];

const LINES: [&str; 12] = [
    r#"{"status":500,"level":"error","took":"30ms","o":{"v":"a"},"addr":"10.1.1.1"}"#,
    r#"{"status":"200","level":"info","env":"inner"}"#,
    r#"{"status":700"#,
    r#"{"_entry":"GET /cart 500","level":"warn","status":"503"}"#,
    r#"level=error status=500 took=25ms addr=10.0.0.9"#,
    r#"level=info status=x took="1"#,
    "GET /cart 500",
    "POST /a 200 from 10.2.3.4",
    "\u{1b}[1;31mGET /red 500\u{1b}[0m",
    "",
    "a\nb",
    "error",
];

fn log_query(rng: &mut Rng) -> LogExpr {
    if rng.one_in(3) {
        let seed = rng.next_u64();
        let selector = Selector {
            matchers: vec![Matcher {
                name: "app".to_owned(),
                op: MatchOp::Equal,
                value: Text::from("m"),
            }],
        };
        return LogExpr { selector, ..Generator::new(seed).log_expr() };
    }
    let mut text = r#"{app="m"}"#.to_owned();
    for _ in 0..rng.below(4) {
        text += " ";
        text += *rng.pick(&STAGES);
    }
    let Ok(Expr::Log(log)) = parse(&text) else { panic!("{text}: a log query") };
    log
}

fn entries(rng: &mut Rng) -> Vec<TestEntry> {
    let mut entries: Vec<TestEntry> = Vec::new();
    for _ in 0..rng.below(40) {
        // Equal entries count each.
        if rng.one_in(8) && !entries.is_empty() {
            entries.push(rng.pick(&entries).clone());
            continue;
        }
        let metadata = match rng.below(5) {
            0 => vec![("trace".to_owned(), rng.below(3).to_string())],
            1 => vec![
                ("env".to_owned(), "collides".to_owned()),
                ("status".to_owned(), "500".to_owned()),
            ],
            _ => Vec::new(),
        };
        let timestamp_ns = rng.below(50) as i64 * SECOND_NS;
        entries.push(TestEntry { timestamp_ns, line: (*rng.pick(&LINES)).into(), metadata });
    }
    entries
}

/// Whether the query returns the entry if it is the only one.
fn returns(plan: &Plan, labels: &Labels, entry: &TestEntry) -> bool {
    let mut store = TestStore::new();
    store.push(labels, entry.clone());
    match store.run(plan, &Layout::PLAIN) {
        Ok(QueryResult::Streams(streams)) => !streams.is_empty(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn entries_match_that_the_query_returns_alone() {
    let (mut matched, mut unmatched, mut without_lines) = (0, 0, 0);
    for seed in 0..1500 {
        let mut rng = Rng::new(seed);
        let log = log_query(&mut rng);
        let mut params = QueryParams::range(0, END_NS, SECOND_NS);
        if rng.one_in(2) {
            params.direction = Direction::Forward;
        }
        // A limit and an interval do not count.
        let alone = Plan::new(&Expr::Log(log.clone()), &params);
        (params.limit, params.interval_ns) = (1, 7 * SECOND_NS);
        let (Ok(alone), Ok(plan)) = (alone, Plan::new(&Expr::Log(log.clone()), &params)) else {
            continue;
        };
        let case = format!("seed {seed}: {log}");
        let matcher = EntryMatcher::with_allowance(&plan.leaves()[0], Box::new(Unlimited));
        let mut matcher = matcher.unwrap_or_else(|error| panic!("{case}: {error}"));
        if rng.one_in(4) {
            matcher = matcher.without_shortcuts();
        }
        let needs = matcher.needs();
        without_lines += u32::from(!needs.lines);
        for env in ["p", "q"] {
            let labels = Labels::from_pairs([("app", "m"), ("env", env)]).expect("labels");
            let mut stream = matcher.stream(&labels);
            for _ in 0..2 {
                let mut entries = entries(&mut rng);
                let is_sorted = rng.one_in(2);
                if is_sorted {
                    entries.sort_by_key(|entry| entry.timestamp_ns);
                }
                let columns = Columns::new(&entries, false);
                let mut block = columns.block(0);
                // Columns that it does not need may be missing.
                if !needs.lines && rng.one_in(2) {
                    block = EntryBlock { lines: &[], line_ends: &[], ..block };
                }
                if !needs.metadata && rng.one_in(2) {
                    block.metadata = MetadataColumn::None;
                }
                let (min_ns, max_ns) = match rng.one_in(2) {
                    true => (i64::MIN, i64::MAX),
                    false => (10 * SECOND_NS, 30 * SECOND_NS),
                };
                let mut is_match = vec![true; entries.len()];
                let outcome = matcher.matches(&mut stream, &block, (min_ns, max_ns), &mut is_match);
                outcome.unwrap_or_else(|stop| panic!("{case}: {stop}"));
                for (entry, is_match) in entries.iter().zip(is_match) {
                    let is_inside = (min_ns..=max_ns).contains(&entry.timestamp_ns);
                    let wanted = is_inside && returns(&alone, &labels, entry);
                    assert_eq!(is_match, wanted, "{case}\n{entry:?}");
                    matched += u32::from(is_match);
                    unmatched += u32::from(!is_match);
                }
            }
            matcher.forget(stream);
        }
    }
    assert!(matched > 5000 && unmatched > 5000, "{matched} of {unmatched}");
    assert!(without_lines > 50, "{without_lines}");
}

#[test]
fn a_matcher_is_of_a_log_query() {
    let expr = parse(r#"count_over_time({app="m"}[1m])"#).expect("a query");
    let plan = Plan::new(&expr, &QueryParams::range(0, END_NS, SECOND_NS)).expect("a plan");
    assert!(EntryMatcher::with_allowance(&plan.leaves()[0], Box::new(Unlimited)).is_err());
}

#[test]
fn a_matcher_needs_the_columns_that_its_stages_read() {
    let needs = |stages: &str| {
        let expr = parse(&format!(r#"{{app="m"}} {stages}"#)).expect("a query");
        let plan = Plan::new(&expr, &QueryParams::range(0, END_NS, SECOND_NS)).expect("a plan");
        let matcher = EntryMatcher::with_allowance(&plan.leaves()[0], Box::new(Unlimited));
        let needs = matcher.expect("a log query").needs();
        (needs.lines, needs.metadata)
    };
    assert_eq!(needs(""), (false, false));
    assert_eq!(needs(r#"|= "x""#), (true, false));
    assert_eq!(needs(r#"| trace="1""#), (false, true));
    assert_eq!(needs(r#"| json | trace="1""#), (true, true));
}

#[test]
fn some_queries_depend_on_the_clock() {
    for (stages, depends) in [
        (r#"| line_format "{{ now | unixEpoch }}" |= "1""#, true),
        (r#"| label_format x=`{{ date "15" .y }}`"#, true),
        (r#"| line_format "{{ .x }}" | label_format y=x"#, false),
        (r#"|= "now""#, false),
    ] {
        let expr = parse(&format!(r#"{{app="m"}} {stages}"#)).expect("a query");
        let Expr::Log(log) = expr else { panic!("a log query") };
        assert_eq!(depends_on_clock(&log), depends, "{stages}");
    }
}
