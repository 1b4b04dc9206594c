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

#[test]
fn the_log_query_finds_the_entries_of_a_sample() {
    let sample = &[("app", "a\"b"), ("team", "t")];
    let by_both = r#" | app="a\"b" | team="t""#;
    let plain = r#"{x="y"} |= "err""#;
    let narrowed = format!("{plain}{by_both}");
    let narrowed = |query: &str| query.replacen(plain, &narrowed, 1);
    for (expr, expected, offset_ns) in [
        (r#"rate({x="y"} |= "err" [1m])"#, narrowed(plain), 0),
        (r#"sum by (app) (rate({x="y"} |= "err" [1m] offset 1m)) > 5"#, narrowed(plain), MINUTE_NS),
        (r#"1 < sum(rate({x="y"} |= "err" [1m]))"#, narrowed(plain), 0),
        (
            r#"sum by (app) (sum_over_time({x="y"} |= "err" | unwrap n [1m])) / sum(rate({z="y"}[5m]))"#,
            narrowed(plain),
            0,
        ),
        (
            r#"sum by (app) (rate({x="y"} |= "err" [1m])) * on (app) group_left (team) vector(1)"#,
            format!(r#"{plain} | app="a\"b""#),
            0,
        ),
        (r#"rate({x="y"} |= "err" [1m]) or rate({z="y"}[5m])"#, plain.to_owned(), 0),
        (
            r#"sum by (app) (rate({x="y"} |= "err" [1m])) * on (app) group_right rate({z="y"}[5m])"#,
            plain.to_owned(),
            0,
        ),
        (
            r#"label_replace(rate({x="y"} |= "err" [1m]), "team", "$1", "app", "(.*)")"#,
            plain.to_owned(),
            0,
        ),
    ] {
        check_query(expr, sample, Some((&expected, MINUTE_NS, offset_ns)));
    }
    check_query("vector(1)", sample, None);
    check_query("{x=\"y\"}", sample, None);
    // No query can compare a label of this name.
    check_query(r#"rate({x="y"}[1m])"#, &[("json", "1")], Some((r#"{x="y"}"#, MINUTE_NS, 0)));
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
