//! A leaf checks often whether it may go on, also within a single entry, and ends when it may not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use logsvc_logql::engine::testing::{Columns, TestEntry};
use logsvc_logql::engine::{Allowance, LeafExecutor, Plan, QueryParams, Stop};
use logsvc_logql::syntax;
use logsvc_proto::Labels;

const SECOND_NS: i64 = 1_000_000_000;

/// Counts checks, and has the leaf end after some.
#[derive(Clone, Debug)]
struct Checks {
    count: Arc<AtomicU64>,
    max: u64,
}

impl Allowance for Checks {
    fn take(&mut self, _bytes: u64) -> Result<(), Stop> {
        Ok(())
    }

    fn give_back(&mut self, _bytes: u64) {}

    fn check(&mut self) -> Result<(), Stop> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count > self.max { Err(Stop::Ended) } else { Ok(()) }
    }

    fn sibling(&self) -> Box<dyn Allowance> {
        Box::new(self.clone())
    }
}

/// The number of checks of a leaf whose first `max` checks succeed, and why it ends.
fn checks(query: &str, lines: &[String], max: u64) -> (u64, Option<Stop>) {
    let expr = syntax::parse(query).expect("a query");
    let params = QueryParams::range(0, 10_000_000 * SECOND_NS, SECOND_NS * 10_000);
    let plan = Plan::new(&expr, &params).expect("a plan");
    let entry = |(second, line): (i64, &String)| TestEntry {
        timestamp_ns: second * SECOND_NS,
        line: line.clone().into_bytes(),
        metadata: Vec::new(),
    };
    let entries: Vec<_> = (0..).zip(lines).map(entry).collect();
    let columns = Columns::new(&entries, true);
    let allowance = Checks { count: Arc::default(), max };
    let count = Arc::clone(&allowance.count);
    let leaf = &plan.leaves()[0];
    let mut executor = LeafExecutor::with_allowance(leaf, Box::new(allowance)).expect("compiled");
    let mut state = executor.stream(&Labels::from_pairs([("app", "m")]).expect("valid"));
    executor.block(&mut state, &columns.block(0));
    let stop = executor.finish_counted().err();
    (count.load(Ordering::Relaxed), stop)
}

/// Runs a query, and again with fewer checks, after which it ends soon.
fn check(query: &str, lines: &[String], least: u64) {
    let shown: String = query.chars().take(100).collect();
    let (count, stop) = checks(query, lines, u64::MAX);
    assert!(count >= least && stop.is_none(), "{shown}: {count} checks, {stop:?}");
    let (fewer, stop) = checks(query, lines, 2);
    assert!(fewer <= 5 && stop == Some(Stop::Ended), "{shown}: {fewer} checks, {stop:?}");
}

#[test]
fn templates_check_within_an_entry() {
    let line = ["GET /cart 200".to_owned()];
    for template in [
        r#"{{ repeat 4000000 "a" }}"#,
        r#"{{ repeat 1300000 "abc" }}"#,
        r#"{{indent 4000000 "a"}}"#,
        r#"{{alignLeft 4000000 "a"}}"#,
        "{{range 100000000}}{{end}}",
        "{{range 100000000}}x{{end}}",
        r#"{{$x := repeat 1000000 "x"}}{{range 100}}{{eq $x $x}}{{end}}"#,
        r#"{{$x := repeat 300000 "a"}}{{count "a" $x}}"#,
        r#"{{$x := repeat 8000 "a"}}{{count "a.*b|a" $x}}"#,
        r#"{{$x := repeat 300000 "a"}}{{regexReplaceAll "a" $x "bc"}}"#,
        r#"{{$x := repeat 1000000 "a"}}{{$x | b64enc | urlencode | upper | len}}"#,
        r#"{{len (fromJson (printf "[%s1]" (repeat 200000 "1,")))}}"#,
        r#"{{printf "%1000000d%1000000d%1000000d" 1 2 3}}"#,
        r#"{{date (repeat 100000 "Monday ") now}}"#,
    ] {
        check(&format!("{{app=\"m\"}} | line_format `{template}`"), &line, 4);
    }
}

#[test]
fn parsers_and_filters_check_within_a_line() {
    let words = "a=b word ".repeat(120_000);
    let json = format!(
        r#"{{"a":{{"b":[{}1],"c":"{}"}},{}"z":1}}"#,
        "1,".repeat(100_000),
        r"x\n".repeat(100_000),
        (0..30_000).map(|i| format!("\"k{i}\":{i},")).collect::<String>()
    );
    let lines = [words.clone(), json, "\u{1b}[31mred".repeat(100_000)];
    for stages in [
        "| json",
        r#"| json x="a.b[70000]", y="z""#,
        "| logfmt",
        r#"| logfmt x="a", y="b""#,
        "| unpack | json",
        "| decolorize | decolorize",
        r#"| pattern "<a>=<b> <_>""#,
        r#"| regexp "(?P<a>.*) (?P<b>.*)""#,
        r#"|~ "x[0-9]+y|z.*q" or "n" |= "o""#,
        r#"| line_format "x" |~ "y" or """#,
        r#"|= ip("1.2.3.4") or "red" or "a""#,
        r#"| pattern "<a>" | a=~".*x.*y" or a!=ip("1.2.3.4")"#,
    ] {
        check(&format!("{{app=\"m\"}} {stages}"), &lines, 4);
    }
    // A stage that reads no line takes a tenth of a microsecond.
    for (stage, times, least) in [("| drop a ", 9_000, 50), ("| logfmt ", 100, 500)] {
        let stages = stage.repeat(times);
        check(&format!("{{app=\"m\"}} {stages}"), std::slice::from_ref(&words), least);
    }
}

#[test]
fn leaves_check_while_they_collect_and_finish() {
    let lines: Vec<String> = (0..20_000).map(|i| format!("id=u{i} n={i}")).collect();
    for query in [
        r#"{app="m"}"#,
        r#"{app="m"} |= "u" != "x""#,
        r#"count_over_time({app="m"} | logfmt [1h])"#,
        r#"sum by (id) (count_over_time({app="m"} | logfmt [1000000s]))"#,
        r#"max_over_time({app="m"} | logfmt | unwrap n [1h]) by (app)"#,
    ] {
        check(query, &lines, 4);
    }
}
