use std::collections::BTreeMap;

use logsvc_logql::syntax;
use logsvc_proto::Labels;

use super::*;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied()).expect("valid")
}

#[track_caller]
fn check_query(expr: &str, sample: &[(&str, &str)], expected: Option<(&str, i64, i64)>) {
    let expr = syntax::parse(expr).expect("a query");
    let found = log_query_of(&expr, &labels(sample));
    if let Some(found) = &found {
        assert_eq!(syntax::parse(&found.text).as_ref(), Ok(&found.expr));
    }
    let found = found.as_ref().map(|it| (&*it.text, it.window_ns, it.offset_ns));
    assert_eq!(found, expected, "{expr}");
}

const MINUTE_NS: i64 = 60_000_000_000;

/// The log query of a sample for a query in which `E` stands for `{x="y"} |= "err"`, and `O` for
/// another one. `None`: there is none. Otherwise what is behind `E`.
#[track_caller]
fn check_narrowed(expr: &str, sample: &[(&str, &str)], expected: Option<&str>) {
    let plain = r#"{x="y"} |= "err""#;
    let expr = expr.replace('E', plain).replace('O', r#"{z="y"}"#);
    let expected = expected.map(|behind| format!("{plain}{behind}"));
    check_query(&expr, sample, expected.as_deref().map(|text| (text, MINUTE_NS, 0)));
}

#[test]
fn the_log_query_finds_the_entries_of_a_sample() {
    let sample = &[("app", "a\"b"), ("team", "t")];
    let by_app = r#" | app="a\"b""#;
    let by_both = r#" | app="a\"b" | team="t""#;
    for (expr, expected) in [
        ("rate(E [1m])", by_both),
        ("sum by (app, team) (rate(E [1m])) > 5", by_both),
        ("1 < sum without (x) (rate(E [1m]))", by_both),
        ("sum by (app) (rate(E [1m])) > 5", by_app),
        ("topk by (x) (3, rate(E [1m]))", by_both),
        ("sum by (app, pod) (rate(E [1m]))", r#" | app="a\"b" | pod="""#),
        ("sum by (app, pod) (sum by (app, job) (rate(E [1m])))", by_app),
        ("sum(rate(E [1m]))", ""),
        // Labels of the value, and filters behind it.
        ("sum by (app, n) (sum_over_time(E | unwrap n [1m]))", by_app),
        ("sum_over_time(E | unwrap n | n > 5 [1m])", r#" | n>5 | app="a\"b" | team="t""#),
        ("max_over_time(E | unwrap n [1m]) by (app)", by_app),
        // Of `label_replace`.
        (r#"label_replace(rate(E [1m]), "team", "$1", "app", "(.*)")"#, by_app),
        // Of pairs.
        ("rate(E [1m]) / rate(O [5m])", by_both),
        ("rate(E [1m]) / on (app) rate(O [5m])", by_app),
        ("rate(E [1m]) / ignoring (team) rate(O [5m])", by_app),
        ("rate(E [1m]) * on (app) group_left (team) rate(O [5m])", by_app),
        ("rate(E [1m]) * on (app) group_left () rate(O [5m])", by_both),
        ("rate(E [1m]) * on (app) group_right () rate(O [5m])", by_app),
        ("rate(E [1m]) * on (app) group_right (team) rate(O [5m])", by_both),
        ("vector(1) * on () group_right () rate(E [1m])", by_both),
        ("vector(1) * on (app) group_right (team) rate(E [1m])", by_app),
        ("vector(1) * on (app) group_left (team) rate(E [1m])", by_both),
        ("vector(1) * on (app) group_left () rate(E [1m])", by_app),
        ("vector(1) < ignoring (team) rate(E [1m])", by_app),
        // Of sets.
        ("rate(E [1m]) and on (app) rate(O [5m])", by_both),
        ("rate(E [1m]) unless on (app) rate(O [5m])", by_both),
        ("vector(1) and on (app) rate(E [1m])", by_app),
        ("rate(E [1m]) or vector(1)", by_both),
        ("vector(1) or rate(E [1m])", by_both),
        ("(rate(E [1m]) > 5) or (rate(E [5m]) > 1)", by_both),
        ("sum by (app) (rate(E [1m])) or rate(E [5m])", by_app),
    ] {
        check_narrowed(expr, sample, Some(expected));
    }
    let offset = r#"rate({x="y"} [1m] offset 1m)"#;
    check_query(offset, &[], Some((r#"{x="y"}"#, MINUTE_NS, MINUTE_NS)));
    check_query("vector(1)", sample, None);
    check_query("{x=\"y\"}", sample, None);
    // No query can compare a label of this name; others narrow all the same.
    check_narrowed("rate(E [1m])", &[("app", "b"), ("json", "1")], Some(r#" | app="b""#));
}

#[test]
fn a_sample_that_may_come_from_elsewhere_has_no_log_query() {
    let sample = &[("app", "a")];
    for expr in [
        "rate(E [1m]) or rate(O [5m])",
        "rate(O [1m]) or rate(E [1m])",
        "rate(E [1m]) or rate(E [1m] offset 5m)",
        "vector(1) unless rate(E [1m])",
        "1 < (vector(1) unless on (app) rate(E [1m]))",
        r#"label_replace(vector(1), "app", "a", "", "") or rate(E [1m])"#,
        r#"rate(E [1m]) or label_replace(vector(1), "app", "a", "", "")"#,
    ] {
        check_narrowed(expr, sample, None);
    }
    // The sample of `vector`.
    for expr in ["rate(E [1m]) or vector(1)", "vector(1) or sum(rate(E [1m]))"] {
        check_narrowed(expr, &[], None);
    }
    // No entry has these labels if the sample is the one of `vector`.
    check_narrowed("sum by (app) (rate(E [1m])) or vector(1)", &[], Some(r#" | app="""#));
    check_narrowed("(sum(rate(E [1m])) or vector(0)) == 0", &[], Some(""));
}

#[test]
fn queries_that_read_entries_are_told_from_others() {
    for (text, expected) in [
        ("vector(1) > 2", false),
        (r#"vector(1) unless rate({a="b"}[1m])"#, true),
        (r#"label_replace(vector(1), "a", "b", "", "")"#, false),
    ] {
        assert_eq!(reads_entries(&syntax::parse(text).expect("a query")), expected, "{text}");
    }
}

#[test]
fn texts_are_checked_with_the_messages_of_prometheus() {
    for (text, expected) in [
        ("{{ $foo }}", r#"template: __alert_a:1: undefined variable "$foo""#),
        ("x\n{{ nofunc 1 }}", r#"template: __alert_a:2: function "nofunc" not defined"#),
        ("{{ if }}", "template: __alert_a:1: missing value for if"),
        ("{{ .Labels.x", "template: __alert_a:1: unclosed action"),
        ("{{ __line__ }}", r#"template: __alert_a:1: function "__line__" not defined"#),
    ] {
        let found = check(TextKind::Annotation, "n", "a", text);
        assert_eq!(found, Err(format!("annotation \"n\": {expected}")));
        let found = check(TextKind::Label, "l\"", "a", text);
        assert_eq!(found, Err(format!("label \"l\\\"\": {expected}")));
    }
    for text in ["", "plain }}", "{{ .Nope }}", "{{ query \"x\" | first | value }}"] {
        assert_eq!(check(TextKind::Label, "n", "a", text), Ok(()), "{text}");
    }
}

#[test]
fn expansions_ask_until_they_know_all() {
    let template = Template::parse(
        "X",
        "{{ range query (printf \"up{a='%s'}\" $labels.app) }}{{ .Value }};{{ end }}\
         {{ with query \"b\" }}{{ . | first | value }}{{ end }}\
         {{ range logLines 2 }}\n> {{ . }}{{ end }}",
    )
    .expect("a template");
    let (own, external) = (labels(&[("app", "z")]), Labels::empty());
    let lines = TemplateLines {
        limit: 2,
        lines: Ok(vec!["one".to_owned(), "two".to_owned(), "three".to_owned()]),
    };
    let mut queries = BTreeMap::new();
    let mut known_lines = None;
    let mut expand = |query: Option<(&str, QueryAnswer)>, has_lines: bool| {
        queries.extend(query.map(|(query, answer)| (query.to_owned(), answer)));
        known_lines = has_lines.then_some(&lines);
        template.expand(&TemplateData {
            labels: &own,
            value: 1.0,
            external_labels: &external,
            external_url: "",
            time_ns: 0,
            queries: &queries,
            lines: known_lines,
        })
    };
    let needs = |need: Need| Ok(Expansion::Needs(vec![need]));
    assert_eq!(expand(None, false), needs(Need::Query("up{a='z'}".to_owned())));
    let samples = vec![(Labels::empty(), 2.0), (Labels::empty(), 3.5)];
    let next = expand(Some(("up{a='z'}", Ok(samples))), false);
    assert_eq!(next, needs(Need::Query("b".to_owned())));
    let next = expand(Some(("b", Ok(vec![(Labels::empty(), 7.0)]))), false);
    assert_eq!(next, needs(Need::Lines { limit: 2 }));
    let text = "2;3.5;7\n> one\n> two".to_owned();
    assert_eq!(expand(None, true), Ok(Expansion::Text(text)));
    let failed = expand(Some(("b", Err("no such thing".to_owned()))), true);
    let error = failed.expect_err("the query failed");
    assert!(
        error.starts_with("error executing template __alert_X: template: __alert_X:1:")
            && error.ends_with("error calling query: no such thing"),
        "{error}"
    );
    assert!(shown_error(&error).starts_with("<error expanding template: error executing"));
}
