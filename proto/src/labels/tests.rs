//! Tests of label sets: golden label strings, order, encoding.

use proptest::prelude::*;

use super::*;

fn parsed(text: &str) -> String {
    parsed_bytes(text.as_bytes())
}

fn parsed_bytes(text: &[u8]) -> String {
    match parse_labels(text) {
        Ok(labels) => labels.to_string(),
        Err(error) => format!("! {error}"),
    }
}

/// `input => outcome`, one case a line; `!` begins an error text.
const GOLDEN: &str = include_str!("../../tests/golden/labels.txt");

#[test]
fn golden_label_strings() {
    let mut cases = 0;
    for line in GOLDEN.lines().filter(|line| !line.is_empty() && !line.starts_with("//")) {
        let (input, expected) = line.split_once(" => ").expect("a case is `input => outcome`");
        // `⏎` stands for a line break, `␀` for nothing.
        let input = input.replace('⏎', "\n").replace('␀', "");
        assert_eq!(parsed(&input), expected, "{input}");
        cases += 1;
    }
    assert!(cases > 50, "the golden file lost its cases");
}

#[test]
fn bytes_that_are_not_utf8_are_refused() {
    let refused = "! 1:6: parse error: invalid UTF-8 rune";
    assert_eq!(parsed_bytes(b"{app=\"\xff\"}"), refused);
    assert_eq!(parsed_bytes(b"{app=`\xff`}"), refused);
    assert_eq!(parsed_bytes(br#"{app="\xff"}"#), refused);
    assert_eq!(
        parsed_bytes(b"{\xff"),
        "! 1:2: parse error: unexpected character inside braces: '\u{fffd}'"
    );
}

#[test]
fn an_oversized_label_string_is_too_large() {
    let text = vec![b' '; MAX_LABEL_STRING_LEN_BYTES + 1];
    assert!(matches!(parse_labels(&text), Err(LabelParseError::TooLarge { .. })));
    assert_eq!(parse_labels(&text[1..]), Ok(Labels::empty()));
}

#[test]
fn duplicates_report_the_whole_set() {
    let error = parse_labels(br#"{b="1", app="x", a="", app="y"}"#).expect_err("a duplicate");
    assert_eq!(error.to_string(), "has duplicate label name: 'app'");
    let mut printed = Vec::new();
    let pairs = error.pairs().iter().map(|(name, value)| (name.as_str(), value.as_str()));
    write_pairs_canonical(pairs, &mut printed);
    assert_eq!(printed, br#"{app="x", app="y", b="1"}"#);
}

#[test]
fn accessors_agree_with_the_pairs() {
    let labels =
        Labels::from_pairs([("env", "prod"), ("app", "web"), ("none", "")]).expect("valid");
    assert_eq!(labels.len(), 2);
    assert!(!labels.is_empty() && Labels::empty().is_empty());
    assert_eq!(labels.get("app"), Some("web"));
    assert_eq!(labels.get("env"), Some("prod"));
    assert_eq!(labels.get("none"), None);
    assert_eq!(labels.text_len_bytes(), 13);
    assert_eq!(labels.iter().len(), 2);
    assert_eq!(labels.as_bytes(), b"\x02\x03app\x03web\x03env\x04prod");
    let kept = Labels::from_result_pairs([("none", "")]).expect("unique");
    assert_eq!(kept.to_string(), r#"{none=""}"#);
    assert_eq!(
        Labels::from_pairs([("a.b", "x")]),
        Err(LabelError::InvalidName { name: "a.b".into() })
    );
    assert_eq!(
        Labels::from_pairs([("a", "x"), ("a", "x")]),
        Err(LabelError::Duplicate { name: "a".into() })
    );
}

#[test]
fn builders_derive_sets() {
    let base = Labels::from_pairs([("a", "1"), ("b", "2")]).expect("valid");
    let other = Labels::from_pairs([("b", "3"), ("c", "4")]).expect("valid");
    let mut builder = LabelsBuilder::from_labels(&base);
    builder.merge(&other).del("a").set("d", "").set("e", "5".to_owned());
    assert_eq!(builder.get("b"), Some("3"));
    assert_eq!(builder.build().expect("valid").to_string(), r#"{b="3", c="4", e="5"}"#);
    assert_eq!(builder.build_result().to_string(), r#"{b="3", c="4", d="", e="5"}"#);
    assert!(LabelsBuilder::new().set("1x", "y").build().is_err());
}

#[test]
fn damaged_encodings_are_refused() {
    use encoding::LabelDecodeError::*;
    let cases: [(&[u8], encoding::LabelDecodeError); 10] = [
        (b"", Truncated),
        (b"\x01", Truncated),
        (b"\x01\x01a\x02x", Truncated),
        (b"\x00\x00", Trailing),
        (b"\x80\x00", BadLength),
        (b"\x01\x01-\x01x", BadName),
        (b"\x01\x00\x01x", BadName),
        (b"\x01\x01a\x00", BadValue),
        (b"\x01\x01a\x01\xff", BadValue),
        (b"\x02\x01a\x01x\x01a\x01y", Unsorted),
    ];
    for (bytes, expected) in cases {
        assert_eq!(Labels::from_bytes(bytes), Err(expected), "{bytes:?}");
    }
    assert_eq!(Labels::from_bytes(b"\x00"), Ok(Labels::empty()));
}

/// Few names and values with awkward bytes, so that sets often share pairs.
fn pairs() -> impl Strategy<Value = Vec<(String, String)>> {
    let name = prop::sample::select(vec!["a", "aa", "a0", "a_", "b", "_", "B"]);
    let value = prop_oneof![
        prop::sample::select(vec!["", "x", "xy", "x\"", "x\\", "x!", "x ", "x\u{2028}", "ü"])
            .prop_map(str::to_owned),
        any::<String>(),
    ];
    prop::collection::btree_map(name.prop_map(str::to_owned), value, 0..5)
        .prop_map(|map| map.into_iter().collect())
}

proptest! {
    #[test]
    fn order_is_the_order_of_the_printed_sets(a in pairs(), b in pairs()) {
        let a = Labels::from_pairs(a).expect("valid names");
        let b = Labels::from_pairs(b).expect("valid names");
        prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
        prop_assert_eq!(a == b, a.to_string() == b.to_string());
        let plain = |labels: &Labels| -> Vec<(String, String)> {
            labels.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
        };
        prop_assert_eq!(a.cmp_pairs(&b), plain(&a).cmp(&plain(&b)));
    }

    #[test]
    fn printed_sets_parse_back(pairs in pairs()) {
        let labels = Labels::from_pairs(pairs).expect("valid names");
        prop_assert_eq!(parse_labels(labels.to_string().as_bytes()), Ok(labels));
    }

    #[test]
    fn encoded_sets_decode_back_and_prefixes_never_do(pairs in pairs()) {
        let labels = Labels::from_pairs(pairs).expect("valid names");
        let bytes = labels.as_bytes();
        for cut in 0..bytes.len() {
            prop_assert!(Labels::from_bytes(&bytes[..cut]).is_err());
        }
        prop_assert_eq!(Labels::from_bytes(bytes), Ok(labels));
    }
}
