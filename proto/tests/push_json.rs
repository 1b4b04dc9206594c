//! The JSON push against golden texts and against serde_json.

use logsvc_proto::push::json::{Dialect, MAX_DEPTH};
use logsvc_proto::push::{EntryList, LabelForm, Push};
use proptest::prelude::*;
use serde_json::json;

mod common;
use common::{Stream, dump};

#[test]
fn golden_bodies() {
    let mut cases = 0;
    let mut list = EntryList::default();
    for line in include_str!("golden/push_json.txt").lines() {
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        let (body, expected) = line.split_once(" => ").expect("a case is `body => outcome`");
        let (walked, listed) = match body.strip_prefix("@legacy ") {
            Some(body) => (
                Push::legacy_json(body.as_bytes()),
                Push::json_listed(body.as_bytes(), Dialect::Legacy, &mut list),
            ),
            None => (
                Push::json(body.as_bytes()),
                Push::json_listed(body.as_bytes(), Dialect::V1, &mut list),
            ),
        };
        for pushed in [walked, listed] {
            let outcome = match pushed {
                Ok(push) => {
                    let streams: Vec<_> = dump(&push).iter().map(Stream::to_string).collect();
                    format!("{} {}", push.totals().streams, streams.join(" ")).trim_end().to_owned()
                }
                Err(error) => format!("! {error}"),
            };
            assert_eq!(outcome, expected, "{body}");
        }
        cases += 1;
    }
    assert!(cases > 60, "the golden file lost its cases");
}

/// The labels of a push with this `stream` object: printed, or the error.
fn labels_of(object: &str) -> String {
    let body = format!(r#"{{"streams":[{{"stream":{object},"values":[["5","x"]]}}]}}"#);
    let push = Push::json(body.as_bytes()).expect("a well-formed push");
    let stream = push.streams().next().expect("a stream with an entry");
    match stream.labels.parse() {
        Ok(labels) => labels.to_string(),
        Err(error) => format!("! {error}"),
    }
}

#[test]
fn label_objects_become_label_sets() {
    let cases = [
        (r#"{"env":"prod","app":"web"}"#, r#"{app="web", env="prod"}"#),
        (
            r#"{"n":5,"t":true,"z":null,"o":{"x": 1},"a":[1]}"#,
            r#"{a="[1]", n="5", o="{\"x\": 1}", t="true", z="null"}"#,
        ),
        (r#"{"a":"1","b":"x","a":"2"}"#, r#"{a="2", b="x"}"#),
        (r#"{"a":"1","a":""}"#, "{}"),
        (r#"{"a":"\u00fc\"\n"}"#, r#"{a="ü\"\n"}"#),
        (r#"{"\u0061":"x"}"#, r#"{a="x"}"#),
        (r#"{"a":"\ud800"}"#, "{a=\"\u{fffd}\"}"),
        ("{}", "{}"),
        // Positions count in the printed set.
        (
            r#"{"pushcase":"r","1bad":"x"}"#,
            "! 1:2: parse error: unexpected character inside braces: '1'",
        ),
        (
            r#"{"pushcase":"r","bad-name":"x"}"#,
            "! 1:5: parse error: unexpected character inside braces: '-'",
        ),
        (
            r#"{"":"x","pushcase":"r"}"#,
            "! 1:2: parse error: unexpected \"=\" in label set, expected identifier or \"}\"",
        ),
        (
            r#"{"ünï":"x","pushcase":"0123456789"}"#,
            "! 1:25: parse error: unexpected character inside braces: 'ü'",
        ),
        (
            r#"{"a b":"x"}"#,
            "! 1:4: parse error: unexpected identifier \"b\" in label set, expected \"=\"",
        ),
        (r#"{"a.b":"x"}"#, "! 1:3: parse error: unexpected character inside braces: '.'"),
        // A name must not smuggle in a second label.
        (
            r#"{"a=\"x\",b":"y"}"#,
            "! 1:2: parse error: label names must match [a-zA-Z_][a-zA-Z0-9_]*",
        ),
    ];
    for (object, expected) in cases {
        assert_eq!(labels_of(object), expected, "{object}");
    }
}

#[test]
fn label_values_that_are_not_utf8_are_refused() {
    let body = b"{\"streams\":[{\"stream\":{\"app\":\"\xff\"},\"values\":[[\"5\",\"\xff\"]]}]}";
    let push = Push::json(body).expect("lines are bytes");
    assert_eq!(dump(&push)[0].entries[0].line, b"\xff");
    let error = push.streams().next().expect("a stream").labels.parse().expect_err("bad value");
    assert_eq!(error.to_string(), "1:6: parse error: invalid UTF-8 rune");
}

#[test]
fn label_texts_with_and_without_escapes_are_different_keys() {
    let body =
        br#"{"streams":[{"labels":"{a='x'}"},{"labels":"{a=\"x\"}"},{"labels":"{a='\\n'}"}]}"#;
    let push = Push::legacy_json(body).expect("well formed");
    let sources: Vec<_> = push.streams().map(|stream| stream.labels).collect();
    let forms: Vec<_> = sources.iter().map(|source| source.form).collect();
    assert_eq!(forms, [LabelForm::Text, LabelForm::JsonText, LabelForm::JsonText]);
    let printed: Vec<_> =
        sources.iter().map(|source| source.parse().expect("valid").to_string()).collect();
    assert_eq!(printed, [r#"{a="x"}"#, r#"{a="x"}"#, r#"{a="\n"}"#]);
}

#[test]
fn nesting_is_bounded_and_needs_no_stack() {
    let nested = |depth: usize| format!("{{\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(Push::json(nested(MAX_DEPTH).as_bytes()).is_ok());
    let error = Push::json(nested(MAX_DEPTH + 1).as_bytes()).expect_err("too deep");
    assert!(error.to_string().ends_with("nested too deeply"), "{error}");
    let bomb = "{\"x\":".repeat(1_000_000);
    let error = Push::json(format!("{{\"x\":{bomb}").as_bytes()).expect_err("too deep");
    assert!(error.to_string().ends_with("nested too deeply"), "{error}");
}

#[test]
fn totals_count_unescaped_bytes() {
    let body = br#"{"streams":[{"stream":{"a":"b"},"values":[["5","a\u00fc\n",{"k\t":"\ud83d\ude00"}],["6","xyz"]]},{}]}"#;
    let totals = Push::json(body).expect("well formed").totals();
    assert_eq!((totals.streams, totals.entries), (2, 2));
    assert_eq!((totals.line_bytes, totals.metadata_pairs, totals.metadata_bytes), (7, 1, 6));
}

type Pairs = Vec<(String, String)>;

fn entries() -> impl Strategy<Value = Vec<(i64, String, Option<Pairs>)>> {
    let text = || prop_oneof![any::<String>(), "[ -~]{0,20}"];
    let pairs = prop::collection::btree_map(text(), text(), 0..3)
        .prop_map(|map| map.into_iter().collect::<Pairs>());
    prop::collection::vec((any::<i64>(), text(), prop::option::of(pairs)), 1..6)
}

proptest! {
    #[test]
    fn what_serde_writes_is_read(streams in prop::collection::vec(entries(), 0..4), pretty: bool) {
        let value = json!({"streams": streams.iter().map(|entries| json!({
            "stream": {"app": "x"},
            "values": entries.iter().map(|(timestamp_ns, line, metadata)| {
                let mut entry = vec![json!(timestamp_ns.to_string()), json!(line)];
                entry.extend(metadata.as_ref().map(|pairs| {
                    json!(pairs.iter().cloned().collect::<std::collections::BTreeMap<_, _>>())
                }));
                json!(entry)
            }).collect::<Vec<_>>(),
        })).collect::<Vec<_>>()});
        let body = if pretty { format!("{value:#}") } else { value.to_string() };
        let push = Push::json(body.as_bytes()).expect("serde writes JSON");
        let dumped = dump(&push);
        let mut list = EntryList::default();
        let listed = Push::json_listed(body.as_bytes(), Dialect::V1, &mut list).expect("the same");
        prop_assert_eq!(&dump(&listed), &dumped);
        prop_assert_eq!(dumped.len(), streams.len());
        let mut line_bytes = 0;
        for (stream, expected) in dumped.iter().zip(&streams) {
            prop_assert_eq!(stream.entries.len(), expected.len());
            for (entry, (timestamp_ns, line, metadata)) in stream.entries.iter().zip(expected) {
                prop_assert_eq!(entry.timestamp_ns, Some(*timestamp_ns));
                prop_assert_eq!(&entry.line, line.as_bytes());
                let metadata: Vec<_> = metadata.iter().flatten()
                    .map(|(name, value)| (name.clone().into_bytes(), value.clone().into_bytes()))
                    .collect();
                prop_assert_eq!(&entry.metadata, &metadata);
                line_bytes += line.len() as u64;
            }
        }
        prop_assert_eq!(push.totals().line_bytes, line_bytes);
    }

    /// Anything serde_json takes as a value may be skipped, and nothing else may
    /// but raw control characters in strings, which the generator leaves out.
    #[test]
    fn unknown_values_are_checked_like_serde_does(text in r#"[\[\]{}:,"a10e.+-]{0,12}|(true|null|\[|\]|,|\{|"a":|\}|1){0,8}"#) {
        let body = format!(r#"{{"x":{text}}}"#);
        let serde = serde_json::from_str::<serde::de::IgnoredAny>(&body).is_ok();
        let ours = Push::json(body.as_bytes());
        // Bodies that end early for serde have trailing text for us, and that goes.
        if serde {
            prop_assert!(ours.is_ok(), "{body}: {ours:?}");
        } else if ours.is_ok() {
            let mut prefixes = (0..=body.len()).map(|end| &body[..end]);
            prop_assert!(
                prefixes.any(|prefix| serde_json::from_str::<serde::de::IgnoredAny>(prefix).is_ok()),
                "{body}"
            );
        }
    }
}
