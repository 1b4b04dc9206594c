//! What is read, and that what is written reads back.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::model::{AlertRule, Rule, RuleGroup, RuleKind};

fn read(text: &str) -> ReadGroup {
    read_group(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn alert(expr: &str) -> Rule {
    Rule {
        kind: RuleKind::Alert(AlertRule {
            alert: "A".to_owned(),
            hold: Duration::ZERO,
            keep_firing: Duration::ZERO,
            annotations: Vec::new(),
        }),
        expr: expr.to_owned(),
        labels: Vec::new(),
    }
}

fn group(rules: Vec<Rule>) -> RuleGroup {
    RuleGroup { name: "g".to_owned(), rules, ..RuleGroup::default() }
}

/// The line of `expr` and those behind it.
fn written(expr: &str) -> String {
    let text = write_group(&group(vec![alert(expr)]));
    assert_eq!(read(&text).rules[0].expr, expr, "{text}");
    let (_, written) = text.split_once("      expr: ").expect("the key");
    written.to_owned()
}

#[test]
fn groups_are_read_from_yaml_and_json() {
    let text = "name: g1\ninterval: 1m30s\nlimit: 5\nquery_offset: 10s\nunknown: {a: [1]}\n\
                source_tenants: [a]\nlabels: {team: x}\nrules:\n  - alert: High\n    \
                expr: vector(1)\n    for: 1d\n    keep_firing_for: 5m\n    labels:\n      b: 1\n      \
                a: yes\n      n: ~\n    annotations:\n      summary: '{{ $value }}'\n  - \
                record: r\n    expr: |\n      vector(1)\n      > 0\n";
    let group = read(text);
    assert_eq!(group.name, "g1");
    assert_eq!(group.interval, Some(Duration::from_secs(90)));
    assert_eq!((group.limit, group.query_offset), (5, Some(Duration::from_secs(10))));
    assert_eq!(group.labels, pairs(&[("team", "x")]));
    let [high, record] = &group.rules[..] else { panic!("{group:?}") };
    assert_eq!((high.alert.as_str(), high.expr.as_str()), ("High", "vector(1)"));
    assert_eq!((high.hold.as_secs(), high.keep_firing.as_secs()), (86_400, 300));
    assert_eq!(high.labels, pairs(&[("a", "yes"), ("b", "1"), ("n", "")]));
    assert_eq!(high.annotations, pairs(&[("summary", "{{ $value }}")]));
    assert_eq!((record.record.as_str(), record.expr.as_str()), ("r", "vector(1)\n> 0\n"));

    let json = r#"{"name":"g","rules":[{"alert":"A","expr":"vector(1)","for":"1h30m"}]}"#;
    assert_eq!(read(json).rules[0].hold.as_secs(), 5400);
    for text in ["", "~", "---\n", "# nothing\n", "name: ''\nrules: []\n", "rules:\n"] {
        assert_eq!(read(text), ReadGroup::default(), "{text:?}");
    }
    assert_eq!(read("name: 123\n---\nname: [").name, "123");
    assert_eq!(read("name: g\ninterval: 0s\nlimit: -1").interval, None);
    for (limit, number) in [("0x10", 16), ("1_000", 1000), ("0b11", 3), ("0o17", 15), ("~", 0)] {
        assert_eq!(read(&format!("limit: {limit}")).limit, number, "{limit}");
    }
}

#[test]
fn values_of_other_forms_are_refused() {
    for text in [
        "{{{",
        "[",
        "a",
        "- a",
        "name: [a]",
        "name: {a: b}",
        "name: a\nname: b",
        "rules: a",
        "rules: {a: b}",
        "rules: [a]",
        "rules: [[a]]",
        "interval: abc",
        "interval: 90",
        "interval: 1.5h",
        "interval: ''",
        "limit: x",
        "limit: '5'",
        "limit: 1.5",
        "limit: -",
        "rules: [{for: xyz}]",
        "rules: [{labels: [a]}]",
        "rules: [{labels: x}]",
        "rules: [{labels: {a: [b]}}]",
        "rules: [{expr: [b]}]",
        "name: *unknown",
        "name: &a [*a]",
        "name: \"\\q\"",
        "name: a\n  b: c",
    ] {
        assert!(read_group(text).is_err(), "{text:?} gives {:?}", read_group(text));
    }
}

#[test]
fn anchors_and_merges_work() {
    let text = "name: g\nrules:\n  - alert: A\n    expr: vector(1)\n    labels: &l {severity: page}\n  \
                - &b\n    alert: B\n    expr: vector(2)\n    labels: *l\n  - <<: *b\n    alert: C\n  - \
                <<: [{alert: D, for: 1s}, {expr: vector(4), for: 2s, alert: E}]\n";
    let group = read(text);
    for rule in &group.rules[..3] {
        assert_eq!(rule.labels, pairs(&[("severity", "page")]));
    }
    assert_eq!((group.rules[2].alert.as_str(), group.rules[2].expr.as_str()), ("C", "vector(2)"));
    let merged = &group.rules[3];
    assert_eq!((merged.alert.as_str(), merged.expr.as_str()), ("D", "vector(4)"));
    assert_eq!(merged.hold.as_secs(), 1);
}

#[test]
fn aliases_do_not_multiply_texts_without_bound() {
    let laughs: String = (1..30)
        .map(|level| format!("l{level}: &l{level} [*l{0}, *l{0}, *l{0}]\n", level - 1))
        .collect();
    // Nobody asks for these.
    assert_eq!(read(&format!("l0: &l0 [lol]\n{laughs}name: g")).name, "g");
    let label = format!("l: &l {{a: \"{}\"}}\n", "x".repeat(100_000));
    let rules = "- {labels: *l}\n".repeat(10_000);
    assert_eq!(read_group(&format!("{label}rules:\n{rules}")), Err(YamlError::TooLarge));
    let merges: String =
        (1..40).map(|n| format!("m{n}: &m{n} {{<<: [*m{0}, *m{0}]}}\n", n - 1)).collect();
    let text = format!("m0: &m0 {{a: b}}\n{merges}rules: [*m39]");
    assert_eq!(read_group(&text), Err(YamlError::TooLarge));
    let short: String = (1..16)
        .map(|n| format!("m{n}: &m{n} {{<<: [{}]}}\n", format!("*m{}, ", n - 1).repeat(9)))
        .collect();
    let text = format!("m0: &m0 {{a: b}}\n{short}rules: [*m15]");
    assert_eq!(read_group(&text), Err(YamlError::TooLarge));
    for text in ["[".repeat(100_000), "- ".repeat(100_000), "{a: ".repeat(100_000)] {
        assert!(read_group(&text).is_err());
    }
    let chain: String = (1..50_000).map(|n| format!("a{n}: &a{n} [*a{}]\n", n - 1)).collect();
    assert_eq!(read(&format!("a0: &a0 [x]\n{chain}")).name, "");
    assert_eq!(read_group(&" ".repeat(TEXT_MAX_BYTES + 1)), Err(YamlError::TooLarge));
}

#[test]
fn lists_have_the_form_that_clients_know() {
    let text = r#"ns1:
    - name: g1
      interval: 10s
      limit: 5
      rules:
        - alert: HighErr
          expr: sum by (app) (count_over_time({app="shop"} |= "error" [24h])) > 2
          for: 5s
          labels:
            severity: page
          annotations:
            summary: app {{ $labels.app }} has {{ $value }}
        - record: app:lines:count
          expr: sum by (app) (count_over_time({app=~".+"}[1h]))
          labels:
            src: rec
"#;
    let groups = read_file(&text.replace("ns1:", "groups:")).expect("a rule file");
    let groups: Vec<RuleGroup> = groups.into_iter().map(ReadGroup::into_group).collect();
    assert_eq!(write_namespaces([("ns1", &groups)]), text);
    let alone = r#"name: g1
interval: 10s
limit: 5
rules:
    - alert: HighErr
      expr: sum by (app) (count_over_time({app="shop"} |= "error" [24h])) > 2
      for: 5s
      labels:
        severity: page
      annotations:
        summary: app {{ $labels.app }} has {{ $value }}
    - record: app:lines:count
      expr: sum by (app) (count_over_time({app=~".+"}[1h]))
      labels:
        src: rec
"#;
    assert_eq!(write_group(&groups[0]), alone);
}

#[test]
fn all_keys_are_written_in_their_order() {
    let text = "name: g\ninterval: 1m\nquery_offset: 0s\nlimit: 1\nrules:\n    - alert: A\n      \
                expr: vector(1)\n      for: 1m\n      keep_firing_for: 2m\n      labels:\n        \
                a: b\n      annotations:\n        c: d\nlabels:\n    team: x\n";
    assert_eq!(write_group(&read(text).into_group()), text);
    assert_eq!(write_group(&read("name: g").into_group()), "name: g\nrules: []\n");
}

#[test]
fn texts_get_the_quotes_of_the_reference() {
    for (expr, line) in [
        ("a b", "a b"),
        ("{a=\"b\"}", "'{a=\"b\"}'"),
        ("{a='b'}", "'{a=''b''}'"),
        ("", "\"\""),
        ("yes", "\"yes\""),
        ("on", "\"on\""),
        ("off", "\"off\""),
        ("1e3", "\"1e3\""),
        ("0x1f", "\"0x1f\""),
        ("0o7", "\"0o7\""),
        ("1_000", "\"1_000\""),
        (".5", "\".5\""),
        ("12:30", "\"12:30\""),
        ("2001-01-01", "\"2001-01-01\""),
        ("2001-13-01", "2001-13-01"),
        ("~", "\"~\""),
        ("null", "\"null\""),
        (".inf", "\".inf\""),
        ("<<", "<<"),
        ("5m", "5m"),
        ("-x", "-x"),
        ("- a", "'- a'"),
        ("-", "'-'"),
        ("a: b", "'a: b'"),
        ("a:", "'a:'"),
        ("a:b", "a:b"),
        ("a #b", "'a #b'"),
        ("a#b", "a#b"),
        ("? a", "'? a'"),
        ("*a", "'*a'"),
        ("&a", "'&a'"),
        ("@a", "'@a'"),
        ("`a", "'`a'"),
        ("%a", "'%a'"),
        ("---", "'---'"),
        (" a", "' a'"),
        ("a ", "'a '"),
        ("a\tb", "\"a\\tb\""),
        ("a\0b", "\"a\\0b\""),
        ("a\rb", "\"a\\rb\""),
        ("a\u{7f}", "\"a\\x7F\""),
        ("ü", "ü"),
        ("🔥", "\"\\U0001F525\""),
        ("\u{feff}a", "\"\\uFEFFa\""),
        ("a\u{85}b", "\"a\\Nb\""),
        ("a\u{2028}b", "\"a\\Lb\""),
    ] {
        assert_eq!(written(expr), format!("{line}\n"), "{expr:?}");
    }
}

#[test]
fn texts_of_several_lines_are_blocks_that_read_back() {
    for (expr, block) in [
        ("a\nb", "|-\n        a\n        b\n"),
        ("a\nb\n", "|\n        a\n        b\n"),
        ("a\n\n", "|+\n        a\n\n"),
        ("\n", "|2+\n\n"),
        ("\n\n", "|2+\n\n\n"),
        ("\nsum(\n  x)\n", "|2\n\n        sum(\n          x)\n"),
        (" a\nb", "|2-\n         a\n        b\n"),
        ("a\n\n\n  b", "|-\n        a\n\n\n          b\n"),
        ("\ta\n", "|\n        \ta\n"),
        ("a\n# b", "|-\n        a\n        # b\n"),
        ("a \nb", "\"a \\nb\"\n"),
        ("a\nb ", "\"a\\nb \"\n"),
        ("a\r\nb", "\"a\\r\\nb\"\n"),
        ("\n ", "\"\\n \"\n"),
    ] {
        assert_eq!(written(expr), block, "{expr:?}");
    }
}

/// Pitfall 13: YAML in, YAML out.
#[test]
fn blocks_with_indentation_indicators_keep_every_line() {
    for (block, expr) in [
        ("|2+\n\n      sum(\n        x)\n\n", "\n  sum(\n    x)\n\n"),
        ("|4+\n\n        sum(x)\n          > 0\n", "\n  sum(x)\n    > 0\n"),
        ("|+\n\n    sum(x)\n    > 0\n\n\n", "\nsum(x)\n> 0\n\n\n"),
        ("|2-\n\n      sum(x)\n", "\n  sum(x)"),
    ] {
        // The block is the last key, so that its blank lines are its own.
        let text = format!("name: g\nrules:\n- alert: A\n  expr: {block}");
        let first = read(&text);
        assert_eq!(first.rules[0].expr, expr, "{text}");
        let again = read(&write_group(&first.into_group()));
        assert_eq!(again.rules[0].expr, expr, "{text}");
    }
}

#[test]
fn names_of_namespaces_read_back_whatever_they_are() {
    let long = "n".repeat(500);
    for name in [
        "a", "a b", "a: b", "yes", "~", "1", "<<", "? a", "- a", "a\nb", "\na", "a\n", "a\tb",
        "ü%+", "..", "{}", "[a]", "'", "\"", "#", " ", " a ", &long,
    ] {
        let groups = [group(vec![alert("vector(1)")]), group(Vec::new())];
        let text = write_namespaces([(name, &groups), ("zz", &groups)]);
        let document = document::Document::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        let root = document.node(document.root.expect("a document"));
        let document::Kind::Mapping(pairs) = &root.kind else { panic!("{text}") };
        let document::Kind::Scalar { text: key, .. } = &document.node(pairs[0].0).kind else {
            panic!("{text}")
        };
        assert_eq!((key.as_str(), pairs.len()), (name, 2), "{text}");
        let document::Kind::Sequence(items) = &document.node(pairs[0].1).kind else {
            panic!("{text}")
        };
        assert_eq!(items.len(), 2, "{text}");
    }
}

/// Texts that consist of what is special somewhere in YAML.
fn odd_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\n".to_owned()),
        Just(" ".to_owned()),
        Just("\t".to_owned()),
        Just("a".to_owned()),
        "[-:#?,|>'\"%@`&*!{}\\[\\]~.<=0-9]",
        any::<char>().prop_map(String::from),
        "[a-z0-9_]{1,5}",
        Just("\r".to_owned()),
        Just("---".to_owned()),
        Just("0x1f".to_owned()),
    ];
    proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat())
}

fn odd_pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    proptest::collection::btree_map("[a-z_]{1,140}", odd_text(), 0..3)
        .prop_map(|map| map.into_iter().collect())
}

fn odd_rule() -> impl Strategy<Value = Rule> {
    let texts = (odd_text(), odd_text(), odd_pairs(), odd_pairs());
    (texts, any::<bool>(), 0..10_u64).prop_map(
        |((name, expr, labels, annotations), is_record, s)| {
            // A rule has a name.
            let name = format!("{name}n");
            let kind = match is_record {
                true => RuleKind::Record { record: name },
                false => RuleKind::Alert(AlertRule {
                    alert: name,
                    hold: Duration::from_secs(s),
                    keep_firing: Duration::from_secs(9 - s),
                    annotations,
                }),
            };
            Rule { kind, expr, labels }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_written_reads_back(
        name in odd_text(),
        labels in odd_pairs(),
        limit in 0..5_u64,
        rules in proptest::collection::vec(odd_rule(), 0..3),
    ) {
        let group = RuleGroup { name, labels, limit, rules, ..RuleGroup::default() };
        let text = write_group(&group);
        let again = read_group(&text).map(ReadGroup::into_group);
        prop_assert_eq!(again.as_ref(), Ok(&group), "{}", text);
        let text = write_namespaces([("groups", [&group, &group])]);
        let again = read_file(&text).map(|groups| {
            groups.into_iter().map(ReadGroup::into_group).collect::<Vec<_>>()
        });
        prop_assert_eq!(again, Ok(vec![group.clone(), group]), "{}", text);
    }

    #[test]
    fn any_text_is_met_without_a_panic(text in odd_text(), other in ".{0,60}") {
        let _ = read_group(&text);
        let _ = read_group(&other);
        crate::fuzz::group_yaml(text.as_bytes());
        let _ = read_file(&format!("groups:\n  - name: {text}\n    rules:\n      - {other}"));
    }
}
