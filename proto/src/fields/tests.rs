//! Objects and what becomes of them.

use super::{FIELDS_MAX, FieldsError, Flat, Mapping, NAME_MAX_BYTES, Origin};
use crate::records::Records;

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn usual() -> Mapping {
    Mapping {
        labels: vec![("host".into(), "host.name".into()), ("app".into(), "app".into())],
        messages: words(&["message", "log"]),
        times: words(&["@timestamp"]),
        ignored: words(&["agent.*", "ecs"]),
        extra: Vec::new(),
    }
}

/// Labels, time, line and metadata, as text.
fn put(mapping: &Mapping, object: &str) -> Result<String, FieldsError> {
    let (mut flat, mut records) = (Flat::default(), Records::new());
    let text = flat.read(object.as_bytes())?;
    let origin = Origin { arrival_ns: 5, labels: &[("index", "logs")] };
    mapping.put(&flat, text, origin, &mut records)?;
    let mut pairs = Vec::new();
    let entry = records.entry(0, &mut pairs);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let metadata =
        entry.metadata.iter().map(|(name, value)| format!(" {}={}", text(name), text(value)));
    let metadata: String = metadata.collect();
    let labels = records.labels(0).parse().expect("a set").canonical();
    Ok(format!("{labels} {} {}{metadata}", entry.timestamp_ns.expect("a time"), text(entry.line)))
}

fn flattened(object: &str) -> Vec<(String, String)> {
    let mut flat = Flat::default();
    flat.read(object.as_bytes()).expect("an object");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    flat.iter().map(|(name, value)| (text(name), text(value))).collect()
}

#[test]
fn objects_become_fields_and_numbers_stay_as_written() {
    let fields = flattened(
        r#"{"a":{"b":{"c":1.50}},"n":12345678901234567890123,"t":true,"z":null,"e":{},
            "l":[1, {"x":2}],"s":"q\"\n\u00e9","":{"":"empty"}}"#,
    );
    let expected = [
        ("a.b.c", "1.50"),
        ("n", "12345678901234567890123"),
        ("t", "true"),
        ("l", r#"[1, {"x":2}]"#),
        ("s", "q\"\n\u{e9}"),
        (".", "empty"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(fields, expected);
}

#[test]
fn depth_count_and_names_are_bounded() {
    let deep = format!("{}1{}", r#"{"a":"#.repeat(40), "}".repeat(40));
    let fields = flattened(&deep);
    assert_eq!(fields[0].0, ["a"; 16].join("."));
    assert_eq!(fields[0].1, format!("{}1{}", r#"{"a":"#.repeat(24), "}".repeat(24)));

    let object = |count: usize| {
        let fields: Vec<String> = (0..count).map(|n| format!(r#""f{n}":{n}"#)).collect();
        format!("{{{}}}", fields.join(","))
    };
    assert_eq!(flattened(&object(FIELDS_MAX)).len(), FIELDS_MAX);
    let many = Flat::default().read(object(FIELDS_MAX + 1).as_bytes()).map(<[u8]>::len);
    assert!(many.unwrap_err().to_string().contains("too many fields"));
    let long = format!(r#"{{"a":{{"{}":1}}}}"#, "n".repeat(NAME_MAX_BYTES));
    let long = Flat::default().read(long.as_bytes()).map(<[u8]>::len);
    assert!(long.unwrap_err().to_string().contains("too long"));
    let nested = "[".repeat(100_000);
    let nested = format!(r#"{{"a":{nested}"#);
    assert!(Flat::default().read(nested.as_bytes()).is_err());
}

#[test]
fn what_is_no_object_is_refused() {
    for (text, message) in [
        ("", "no JSON object: it is empty"),
        ("  ", "no JSON object: it is empty"),
        ("oops", "no JSON object: expected an object at byte 1"),
        ("[1]", "no JSON object: expected an object at byte 1"),
        (r#"{"a":1"#, "no JSON object: expected ',' or '}' in an object at byte 7"),
        (r#"{"a":1} x"#, "no JSON object: there is something behind the object at byte 9"),
        (r#"{"a":01}"#, "no JSON object: malformed number at byte 6"),
    ] {
        let error = Flat::default().read(text.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), message, "{text}");
    }
}

#[test]
fn fields_become_line_time_labels_and_metadata() {
    let object = r#"{"@timestamp":"1970-01-01T00:00:01Z","message":"m","log":"l","host":{"name":"h"},
        "agent":{"id":"x","v":1},"ecs":"1","level":"warn","...":"dots"}"#;
    let expected = r#"{host="h", index="logs"} 1000000000 m log=l level=warn unnamed=dots"#;
    assert_eq!(put(&usual(), object).unwrap(), expected);
    // The second message field; no time.
    let expected = r#"{app="7", index="logs"} 5 l"#;
    assert_eq!(
        put(&usual(), r#"{"log":"l","message":"","app":7}"#).unwrap(),
        r#"{app="7", index="logs"} 5 l message="#
    );
    assert_eq!(put(&usual(), r#"{"log":"l","app":7,"@timestamp":0}"#).unwrap(), expected);
    // No message: the object is the line.
    let expected = r#"{app="s", index="logs"} 5 { "app":"s", "x":1.0 }"#;
    assert_eq!(put(&usual(), r#" { "app":"s", "x":1.0 } "#).unwrap(), expected);
}

#[test]
fn a_time_that_cannot_be_read_refuses_the_object() {
    let error = put(&usual(), r#"{"message":"m","@timestamp":"soon"}"#).unwrap_err();
    let text =
        r#"the field "@timestamp" is no time: "soon" is neither RFC 3339 nor a number since 1970"#;
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_request_changes_the_mapping() {
    let mut mapping = usual();
    let refined = mapping.refine(|param, header| match (param, header) {
        ("_stream_fields", "VL-Stream-Fields") => Some("kubernetes.pod, env"),
        ("_msg_field", "VL-Msg-Field") => Some("text"),
        ("_time_field", "VL-Time-Field") => Some("at"),
        ("ignore_fields", "VL-Ignore-Fields") => Some("secret*"),
        ("extra_fields", "VL-Extra-Fields") => Some("env=prod,site=a=b"),
        other => panic!("unknown: {other:?}"),
    });
    assert_eq!(refined, Ok(()));
    let object = r#"{"kubernetes":{"pod":"p"},"env":"own","site":"own","at":2,"text":"t","secret_key":1,
        "message":"m"}"#;
    let expected =
        r#"{env="prod", index="logs", kubernetes_pod="p"} 2000000000 t site=a=b message=m"#;
    assert_eq!(put(&mapping, object).unwrap(), expected);
    let mut same = usual();
    assert_eq!(same.refine(|_, _| None), Ok(()));
    assert_eq!(same, usual());
}

#[test]
fn a_request_cannot_name_any_number_of_fields() {
    let ask = |asked: &str, value: &str| {
        usual().refine(|param, _| (param == asked).then_some(value)).map_err(|e| e.to_string())
    };
    let most = vec!["a=b"; super::NAMED_FIELDS_MAX].join(",");
    for param in ["_stream_fields", "_msg_field", "_time_field", "ignore_fields", "extra_fields"] {
        assert_eq!(ask(param, &most), Ok(()), "{param}");
        let text = format!("{param} names more than 128 fields");
        assert_eq!(ask(param, &format!("{most},a=b")), Err(text));
    }
    let text = "\"b\" in extra_fields is not of the form name=value";
    assert_eq!(ask("extra_fields", "a=1,b"), Err(text.to_owned()));
}
