//! Parsers extract the labels a query looks at and no others: which damage in a line is noticed,
//! and which is not.

use logsvc_logql::engine::testing::{TestEntry, TestStore};
use logsvc_logql::engine::{QueryParams, QueryResult};
use logsvc_proto::Labels;

const SECOND_NS: i64 = 1_000_000_000;

fn store(lines: &[&str]) -> TestStore {
    let mut store = TestStore::new();
    let labels = Labels::from_pairs([("app", "m")]).expect("valid");
    for (second, line) in (1..).zip(lines) {
        let timestamp_ns = second * SECOND_NS;
        store.push(&labels, TestEntry { timestamp_ns, line: (*line).into(), metadata: vec![] });
    }
    store
}

/// The samples at the end, as `labels value`, or the first line of the error.
fn answer(lines: &[&str], query: &str) -> Vec<String> {
    match store(lines).query(query, &QueryParams::instant(30 * SECOND_NS)) {
        Ok(QueryResult::Vector(samples)) => samples
            .iter()
            .map(|sample| format!("{} {}", sample.labels.canonical(), sample.point.value))
            .collect(),
        Ok(other) => panic!("{query}: {other:?}"),
        Err(error) => vec![error.to_string().lines().next().unwrap_or_default().to_owned()],
    }
}

fn fails_with(lines: &[&str], query: &str, error: &str) {
    let answer = answer(lines, query);
    let wanted = format!("pipeline error: '{error}' for series: ");
    assert!(answer.len() == 1 && answer[0].starts_with(&wanted), "{query}: {answer:?}");
}

#[test]
fn nobody_looks_at_labels_so_parsers_do_not_run() {
    let lines = ["not json", r#"{"a":1,"_entry":"x"}"#];
    for pipeline in ["json", "logfmt --strict", "unpack", "json x=\"a\"", "json | drop a"] {
        let query = format!(r#"sum(count_over_time({{app="m"}} | {pipeline} [1m]))"#);
        assert_eq!(answer(&lines, &query), ["{} 2"], "{query}");
    }
    // The line stays packed where only its length is asked for, as in Loki,
    // but not where a filter reads it.
    let bytes = r#"sum by () (bytes_over_time({app="m"} | unpack [1m]))"#;
    assert_eq!(answer(&lines, bytes), ["{} 28"]);
    let filtered = r#"sum(count_over_time({app="m"} | unpack |= "_entry" [1m]))"#;
    assert_eq!(answer(&lines, filtered), Vec::<String>::new());
    for wrapper in ["", "max", "count", "sum without ()", "sum by (a)"] {
        let query = format!(r#"{wrapper}(count_over_time({{app="m"}} | json [1m]))"#);
        fails_with(&lines, &query, "JSONParserErr");
    }
}

#[test]
fn damage_behind_the_last_wanted_field_goes_unnoticed() {
    let lines = [r#"{"a":"x","o":{"b":1,},"c":nope"#];
    let query = r#"sum by (a) (count_over_time({app="m"} | json [1m]))"#;
    assert_eq!(answer(&lines, query), [r#"{a="x"} 1"#]);
    let query = r#"sum by (a, o_b) (count_over_time({app="m"} | json | json [1m]))"#;
    assert_eq!(answer(&lines, query), [r#"{a="x", o_b="1"} 1"#]);
    fails_with(
        &lines,
        r#"sum by (a, d) (count_over_time({app="m"} | json [1m]))"#,
        "JSONParserErr",
    );
    let lines = ["a=1 b=x\"y"];
    let query = r#"sum(count_over_time({app="m"} | logfmt --strict | a="1" [1m]))"#;
    assert_eq!(answer(&lines, query), ["{} 1"]);
    fails_with(
        &lines,
        r#"count_over_time({app="m"} | logfmt --strict | a="1" [1m])"#,
        "LogfmtParserErr",
    );
}

#[test]
fn errors_that_are_looked_at_are_part_of_the_result() {
    let lines = ["not json", r#"{"a":"x"}"#, r#"{"a":"y","#];
    let query = r#"sum by (a, __error__) (count_over_time({app="m"} | json [1m]))"#;
    assert_eq!(
        answer(&lines, query),
        [
            r#"{__error__="JSONParserErr"} 1"#,
            r#"{__error__="JSONParserErr", a="y"} 1"#,
            r#"{a="x"} 1"#
        ]
    );
    let query = r#"sum(count_over_time({app="m"} | json | __error__="JSONParserErr" [1m]))"#;
    assert_eq!(answer(&lines, query), ["{} 2"]);
    fails_with(
        &lines,
        r#"count_over_time({app="m"} | json | __error__="JSONParserErr" [1m])"#,
        "JSONParserErr",
    );
    // Only the errors of parsers.
    fails_with(
        &lines,
        r#"sum by (__error__) (count_over_time({app="m"} | json | a > 1 | a != "" [1m]))"#,
        "LabelFilterErr",
    );
}

#[test]
fn suffixed_labels_and_later_stages_are_seen() {
    let lines = [r#"{"app":"in","a":"1","b":"2"}"#];
    let by = |label: &str, pipeline: &str| {
        answer(
            &lines,
            &format!("sum by ({label}) (count_over_time({{app=\"m\"}} {pipeline} [1m]))"),
        )
    };
    assert_eq!(by("app_extracted", "| json"), [r#"{app_extracted="in"} 1"#]);
    assert_eq!(by("app", "| json"), [r#"{app="m"} 1"#]);
    assert_eq!(by("x", "| json | label_format x=b"), [r#"{x="2"} 1"#]);
    // Parsers with a list of names overwrite the labels of earlier parsers. A defect of Loki is not
    // copied: it gives `z` the empty value in the second query.
    assert_eq!(by("a", r#"| json | json a="b""#), [r#"{a="2"} 1"#]);
    assert_eq!(by("z", r#"| logfmt z="u" | json z="b""#), [r#"{z="2"} 1"#]);
}

#[test]
fn filters_behind_an_unwrap_see_its_label_and_error() {
    let lines = ["v=1 w=a", "v=7 w=b", "v=x w=c"];
    let sum = |filters: &str| {
        let query = format!(r#"sum_over_time({{app="m"}} | logfmt | unwrap v {filters} [1m])"#);
        answer(&lines, &query)
    };
    assert_eq!(sum(r#"| __error__="""#), [r#"{app="m", w="a"} 1"#, r#"{app="m", w="b"} 7"#]);
    assert_eq!(sum(r#"| v < 5, __error__="" | w != "b""#), [r#"{app="m", w="a"} 1"#]);
    let by = r#"sum by (w) (sum_over_time({app="m"} | logfmt | unwrap v | v != "x" [1m]))"#;
    assert_eq!(answer(&lines, by), [r#"{w="a"} 1"#, r#"{w="b"} 7"#]);
}

#[test]
fn values_that_are_no_text_become_text() {
    let labels = Labels::from_pairs([("app", "m")]).expect("valid");
    let mut store = TestStore::new();
    let line = b"a=\xff\xfe b".to_vec();
    store.push(&labels, TestEntry { timestamp_ns: SECOND_NS, line, metadata: vec![] });
    for pipeline in ["logfmt", "pattern \"a=<a> <_>\"", "regexp \"a=(?P<a>[^ ]+)\""] {
        let query = format!(r#"count_over_time({{app="m"}} | {pipeline} [1m])"#);
        let result = store.query(&query, &QueryParams::instant(30 * SECOND_NS));
        let Ok(QueryResult::Vector(samples)) = result else { panic!("{query}: {result:?}") };
        if pipeline.starts_with("regexp") {
            // A byte that is no text matches no class.
            assert_eq!(samples[0].labels.get("a"), None, "{query}");
        } else {
            assert_eq!(samples[0].labels.get("a"), Some("  "), "{query}");
        }
    }
}
