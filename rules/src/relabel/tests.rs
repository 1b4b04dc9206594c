use super::*;

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied()).expect("valid")
}

fn rule(action: RelabelAction) -> RelabelConfig {
    RelabelConfig { action, ..RelabelConfig::default() }
}

fn sources(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[track_caller]
fn check(rules: &[RelabelConfig], given: &[(&str, &str)], expected: Option<&[(&str, &str)]>) {
    let relabeller = Relabeller::new(rules).expect("valid rules");
    assert_eq!(relabeller.apply(&labels(given)), expected.map(labels), "{rules:?}");
}

fn replace(from: &[&str], regex: &str, target: &str, replacement: &str) -> RelabelConfig {
    RelabelConfig {
        source_labels: sources(from),
        regex: regex.to_owned(),
        target_label: target.to_owned(),
        replacement: replacement.to_owned(),
        ..RelabelConfig::default()
    }
}

#[test]
fn replace_writes_what_the_groups_say() {
    let given = &[("a", "foo"), ("b", "bar"), ("c", "baz")];
    let cases: &[(RelabelConfig, &[(&str, &str)])] = &[
        (replace(&["a"], "f(.*)", "d", "ch${1}-ch${1}"), &[("d", "choo-choo")]),
        (replace(&["a", "b"], "f(.*);(.*)r", "a", "b${1}${2}m"), &[("a", "boobam")]),
        // The whole text must match.
        (replace(&["a"], "o", "d", "x"), &[]),
        // A name out of groups, and one that is none.
        (replace(&["a"], "(f)(.*)", "${1}_$2", "v"), &[("f_oo", "v")]),
        (replace(&["a"], "(f)(.*)", "$3", "v"), &[]),
        // An empty value removes.
        (replace(&["b"], "bar", "b", ""), &[("b", "")]),
        // Nothing is joined: the text is empty, and the default expression matches it.
        (replace(&[], "(.*)", "env", "prod"), &[("env", "prod")]),
        (replace(&["nope"], "(.*)", "env", "prod"), &[("env", "prod")]),
        (replace(&["nope"], "(.*)", "c", "$1"), &[("c", "")]),
    ];
    for (rule, changed) in cases {
        let mut expected: Vec<(&str, &str)> = given.to_vec();
        expected.retain(|(name, _)| changed.iter().all(|(other, _)| other != name));
        expected.extend(changed.iter().filter(|(_, value)| !value.is_empty()));
        check(std::slice::from_ref(rule), given, Some(&expected));
    }
}

#[test]
fn a_dot_matches_a_line_feed() {
    let lines = &[("a", "x\ny")];
    check(&[replace(&["a"], "(.*)", "a", "<$1>")], lines, Some(&[("a", "<x\ny>")]));
}

#[test]
fn keep_and_drop_decide_about_the_whole_set() {
    let given = &[("a", "foo"), ("b", "foo"), ("c", "x")];
    let by_regex = |action, regex: &str| RelabelConfig {
        source_labels: sources(&["a"]),
        regex: regex.to_owned(),
        ..rule(action)
    };
    let by_target = |action, target: &str| RelabelConfig {
        source_labels: sources(&["a"]),
        target_label: target.to_owned(),
        ..rule(action)
    };
    for (rule, is_kept) in [
        (by_regex(RelabelAction::Keep, "fo+"), true),
        (by_regex(RelabelAction::Keep, "f"), false),
        (by_regex(RelabelAction::Drop, "fo+"), false),
        (by_regex(RelabelAction::Drop, "f"), true),
        (by_target(RelabelAction::KeepEqual, "b"), true),
        (by_target(RelabelAction::KeepEqual, "c"), false),
        (by_target(RelabelAction::DropEqual, "b"), false),
        (by_target(RelabelAction::DropEqual, "nope"), true),
    ] {
        check(&[rule], given, is_kept.then_some(given));
    }
}

#[test]
fn names_are_mapped_dropped_and_kept() {
    let given = &[("meta_app", "a"), ("meta_env", "e"), ("x", "1")];
    let names = |action, regex: &str| RelabelConfig { regex: regex.to_owned(), ..rule(action) };
    check(
        &[names(RelabelAction::LabelMap, "meta_(.+)")],
        given,
        Some(&[("meta_app", "a"), ("meta_env", "e"), ("x", "1"), ("app", "a"), ("env", "e")]),
    );
    check(&[names(RelabelAction::LabelDrop, "meta.*")], given, Some(&[("x", "1")]));
    check(&[names(RelabelAction::LabelKeep, "x|y")], given, Some(&[("x", "1")]));
    check(&[names(RelabelAction::LabelKeep, "y")], given, Some(&[]));
}

#[test]
fn letters_change_their_case() {
    let given = &[("a", "Foo"), ("b", "Bär")];
    let both = |action| RelabelConfig {
        source_labels: sources(&["a", "b"]),
        target_label: "c".to_owned(),
        ..rule(action)
    };
    let with = |value| [given[0], given[1], ("c", value)];
    check(&[both(RelabelAction::Lowercase)], given, Some(&with("foo;bär")));
    check(&[both(RelabelAction::Uppercase)], given, Some(&with("FOO;BÄR")));
}

#[test]
fn hashmod_is_the_number_of_prometheus() {
    // The example of Prometheus' own tests: `foo-bar-baz` modulo 1000 is 976.
    let config = RelabelConfig {
        source_labels: sources(&["c"]),
        target_label: "d".to_owned(),
        separator: ";".to_owned(),
        modulus: 1000,
        ..rule(RelabelAction::HashMod)
    };
    let given = &[("a", "foo"), ("b", "bar"), ("c", "baz")];
    check(
        std::slice::from_ref(&config),
        given,
        Some(&[given[0], given[1], given[2], ("d", "976")]),
    );
    let sum = RelabelConfig { modulus: u64::MAX, ..config };
    let relabelled = Relabeller::new(&[sum]).expect("valid").apply(&labels(&[("a", "x")]));
    // MD5 of nothing: d41d8cd98f00b204e9800998ecf8427e.
    let expected = 0xe980_0998_ecf8_427e_u64.to_string();
    assert_eq!(relabelled.expect("kept").get("d"), Some(expected.as_str()));
}

#[test]
fn refused_rules_are_refused_in_the_words_of_prometheus() {
    use RelabelAction::*;
    let with_target =
        |action, target: &str| RelabelConfig { target_label: target.to_owned(), ..rule(action) };
    let cases = [
        (rule(HashMod), "relabel configuration for hashmod requires non-zero modulus"),
        (rule(Replace), "relabel configuration for replace action requires 'target_label' value"),
        (
            RelabelConfig { modulus: 2, ..rule(HashMod) },
            "relabel configuration for hashmod action requires 'target_label' value",
        ),
        (
            rule(KeepEqual),
            "relabel configuration for keepequal action requires 'target_label' value",
        ),
        (with_target(Replace, "0a"), r#""0a" is invalid 'target_label' for replace action"#),
        (with_target(Replace, "${a"), r#""${a" is invalid 'target_label' for replace action"#),
        (with_target(Replace, "1$a"), r#""1$a" is invalid 'target_label' for replace action"#),
        (with_target(Uppercase, "$a"), r#""$a" is invalid 'target_label' for uppercase action"#),
        (
            RelabelConfig { replacement: "x".to_owned(), ..with_target(Lowercase, "a") },
            "'replacement' can not be set for lowercase action",
        ),
        (
            RelabelConfig { replacement: "a-$1".to_owned(), ..rule(LabelMap) },
            r#""a-$1" is invalid 'replacement' for labelmap action"#,
        ),
        (
            RelabelConfig { modulus: 2, ..with_target(HashMod, "a b") },
            r#""a b" is invalid 'target_label' for hashmod action"#,
        ),
        (
            RelabelConfig { regex: "x".to_owned(), ..with_target(DropEqual, "a") },
            "dropequal action requires only 'source_labels' and `target_label`, and no other fields",
        ),
        (
            with_target(LabelDrop, "a"),
            "labeldrop action requires only 'regex', and no other fields",
        ),
        (
            RelabelConfig { source_labels: sources(&["a"]), ..rule(LabelKeep) },
            "labelkeep action requires only 'regex', and no other fields",
        ),
        (
            RelabelConfig { source_labels: sources(&["a-b"]), ..rule(Keep) },
            r#""a-b" is not a valid label name"#,
        ),
        (
            RelabelConfig { regex: "(".to_owned(), ..rule(Keep) },
            "error parsing regexp: missing closing ): `^(?s:()$`",
        ),
        (
            RelabelConfig { regex: "a".repeat(70_000), ..rule(Keep) },
            "error parsing regexp: expression too large",
        ),
    ];
    for (config, message) in cases {
        let refusal = Relabeller::new(std::slice::from_ref(&config)).expect_err(message);
        assert_eq!(refusal.to_string(), message, "{config:?}");
    }
}

#[test]
fn the_patterns_of_a_list_share_one_bound() {
    let large = RelabelConfig { regex: "[a-z]{1000}".repeat(20), ..rule(RelabelAction::Keep) };
    assert!(Relabeller::new(std::slice::from_ref(&large)).is_ok());
    let refusal = Relabeller::new(&vec![large; 1000]).expect_err("too much");
    assert_eq!(refusal.to_string(), "error parsing regexp: expression too large");
}

#[test]
fn a_set_that_grows_without_end_is_dropped() {
    let double: Vec<_> = (0..40)
        .map(|number| RelabelConfig {
            replacement: format!("x{number}_$1"),
            ..rule(RelabelAction::LabelMap)
        })
        .collect();
    check(&double[..1], &[("a", "v")], Some(&[("a", "v"), ("x0_a", "v")]));
    check(&double, &[("a", "v")], None);
    let longer = vec![replace(&["a"], "(.*)", "a", "$1$1"); 40];
    let relabelled = Relabeller::new(&longer).expect("valid").apply(&labels(&[("a", "v")]));
    assert_eq!(relabelled.expect("kept").get("a").map(str::len), Some(VALUE_MAX_BYTES));
}

#[test]
fn labels_that_no_rule_names_stay() {
    let odd = Labels::from_result_pairs([("a b", "1"), ("c", ""), ("d", "2")]).expect("unique");
    let relabeller = Relabeller::new(&[replace(&["d"], "2", "e", "3")]).expect("valid");
    let expected = Labels::from_result_pairs([("a b", "1"), ("d", "2"), ("e", "3")]);
    assert_eq!(relabeller.apply(&odd), expected.ok());
    assert!(!relabeller.is_empty() && Relabeller::default().is_empty());
}
