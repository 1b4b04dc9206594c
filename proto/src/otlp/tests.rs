use super::*;
use crate::labels::Labels;
use crate::push::protobuf::ProtobufError;

/// Names that begin with `label` become labels, with `drop` nothing.
struct Rules {
    severity_label: bool,
}

impl Rules {
    fn action(name: &[u8]) -> Action {
        match name {
            _ if name.starts_with(b"label") => Action::IndexLabel,
            _ if name.starts_with(b"drop") => Action::Drop,
            _ => Action::StructuredMetadata,
        }
    }
}

impl AttributeRules for Rules {
    fn resource(&self, name: &[u8]) -> Action {
        Rules::action(name)
    }

    fn scope(&self, name: &[u8]) -> Action {
        Rules::action(name)
    }

    fn record(&self, name: &[u8]) -> Action {
        Rules::action(name)
    }

    fn severity_text_is_label(&self) -> bool {
        self.severity_label
    }
}

const RULES: Rules = Rules { severity_label: false };
const NOW_NS: i64 = 99;

/// The outcome of a request: labels, then an entry a line.
fn print(message: &[u8]) -> Result<String, ProtobufError> {
    let request = LogsRequest::protobuf(message)?;
    let mut out = Vec::new();
    for resource in request.resources() {
        let labels = resource_labels(&resource, &RULES);
        out.push(labels.canonical());
        let mut assembler = Assembler::new(&resource, &RULES);
        for scope in resource.scopes() {
            assembler.begin_scope(&scope, &RULES);
            for record in scope.records() {
                if let Some(labels) = record_labels(&labels, &record, &RULES) {
                    out.push(format!("+{}", labels.canonical()));
                }
                let entry = match assembler.entry(&record, &RULES, NOW_NS) {
                    Ok(entry) => entry,
                    Err(error) => {
                        out.push(format!("! {error}"));
                        continue;
                    }
                };
                let pairs: Vec<_> = entry
                    .metadata
                    .iter()
                    .map(|(name, value)| {
                        format!("{}={}", name.escape_ascii(), value.escape_ascii())
                    })
                    .collect();
                assert_eq!(entry.metadata.count(), pairs.len());
                let len = pairs.iter().map(|pair| pair.len() - 1).sum::<usize>();
                if pairs.iter().all(|pair| !pair.contains('\\')) {
                    assert_eq!(entry.metadata.len_bytes(), len);
                }
                let timestamp_ns = entry.timestamp_ns.expect("records have times");
                let line = entry.line.escape_ascii();
                out.push(format!("{timestamp_ns} {line} [{}]", pairs.join(" ")));
            }
        }
    }
    Ok(out.join("\n"))
}

fn print_json(json: &str) -> String {
    let mut message = Vec::new();
    match transcode_json(json.as_bytes(), &mut message) {
        Ok(()) => print(&message).unwrap_or_else(|error| format!("! {error}")),
        Err(error) => format!("! {error}"),
    }
}

/// A request with one record.
fn with_record(record: &str) -> String {
    format!(r#"{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{record}]}}]}}]}}"#)
}

#[test]
fn everything_of_a_record_is_kept() {
    let json = r#"{"resourceLogs":[{
        "resource":{"attributes":[
            {"key":"label.a","value":{"stringValue":"x"}},
            {"key":"label.b","value":{"kvlistValue":{"values":[
                {"key":"c.d","value":{"intValue":"5"}},{"key":"e","value":{}}]}}},
            {"key":"drop","value":{"stringValue":"gone"}},
            {"key":"host.name","value":{"stringValue":"h"}}]},
        "schemaUrl":"ignored",
        "scopeLogs":[{
            "scope":{"name":"lib","version":"1.2","droppedAttributesCount":4,
                     "attributes":[{"key":"sa","value":{"boolValue":false}}]},
            "logRecords":[
                {"timeUnixNano":"1773900000000000000","observedTimeUnixNano":"1773900000000000001",
                 "severityNumber":13,"severityText":"WARN","body":{"stringValue":"a \"line\""},
                 "attributes":[
                    {"key":"http.method","value":{"stringValue":"GET"}},
                    {"key":"label.r","value":{"stringValue":"own"}},
                    {"key":"m","value":{"kvlistValue":{"values":[
                        {"key":"in.ner","value":{"stringValue":"v"}},
                        {"key":"deep","value":{"kvlistValue":{"values":[
                            {"key":"er","value":{"doubleValue":1.5}}]}}}]}}},
                    {"key":"arr","value":{"arrayValue":{"values":[
                        {"stringValue":"x"},{"intValue":1},{}]}}},
                    {"key":"by","value":{"bytesValue":"AQID"}},
                    {"key":"drop.this","value":{"intValue":1}},
                    {"key":"empty","value":{"stringValue":""}},
                    {"key":"none"}],
                 "droppedAttributesCount":3,"flags":1,
                 "traceId":"0AF7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331",
                 "eventName":"evt"},
                {"observedTimeUnixNano":7,"body":{"stringValue":"second"}},
                {}]},
            {"logRecords":[{"timeUnixNano":5,"traceId":"00000000000000000000000000000000"}]}]}]}"#;
    let expected = "\
{label_a=\"x\", label_b_c_d=\"5\"}
+{label_a=\"x\", label_b_c_d=\"5\", label_r=\"own\"}
1773900000000000000 a \\\"line\\\" [http_method=GET m_in_ner=v m_deep_er=1.5 arr=[\\\"x\\\",1,null] \
by=AQID observed_timestamp=1773900000000000001 severity_number=13 severity_text=WARN \
dropped_attributes_count=3 flags=1 trace_id=0af7651916cd43dd8448eb211c80319c \
span_id=b7ad6b7169203331 event_name=evt host_name=h sa=false scope_name=lib scope_version=1.2 \
scope_dropped_attributes_count=4]
7 second [host_name=h sa=false scope_name=lib scope_version=1.2 scope_dropped_attributes_count=4]
99  [host_name=h sa=false scope_name=lib scope_version=1.2 scope_dropped_attributes_count=4]
5  [host_name=h]";
    assert_eq!(print_json(json), expected);
    let snake = json
        .replace("resourceLogs", "resource_logs")
        .replace("scopeLogs", "scope_logs")
        .replace("logRecords", "log_records")
        .replace("UnixNano", "_unix_nano")
        .replace("Value\"", "_value\"")
        .replace("observedTime", "observed_time")
        .replace("severityN", "severity_n")
        .replace("severityT", "severity_t")
        .replace("AttributesCount", "_attributes_count")
        .replace("Id\":", "_id\":")
        .replace("eventName", "event_name");
    assert_eq!(print_json(&snake), expected);
}

#[test]
fn bodies_become_lines() {
    let cases = [
        (r#"{"stringValue":"a\nb"}"#, r"a\nb"),
        (r#"{"intValue":"-42"}"#, "-42"),
        (r#"{"boolValue":true}"#, "true"),
        (r#"{"doubleValue":0.25}"#, "0.25"),
        (r#"{"doubleValue":1}"#, "1"),
        (r#"{"doubleValue":1e21}"#, "1e+21"),
        (r#"{"doubleValue":1e-7}"#, "1e-7"),
        (r#"{"doubleValue":0.000001}"#, "0.000001"),
        (r#"{"doubleValue":"-Infinity"}"#, "-Inf"),
        (r#"{"doubleValue":"NaN"}"#, "NaN"),
        (r#"{"bytesValue":"AQI="}"#, "AQI="),
        (r#"{"bytesValue":"AQI"}"#, "AQI="),
        (r#"{"arrayValue":{"values":[{"stringValue":"x"},{"intValue":1}]}}"#, r#"[\"x\",1]"#),
        (r#"{"arrayValue":{}}"#, "[]"),
        (
            r#"{"kvlistValue":{"values":[{"key":"z","value":{"doubleValue":"NaN"}},
                {"key":"a","value":{"bytesValue":"AQI="}},{"key":"a","value":{"boolValue":true}},
                {"key":"<","value":{"kvlistValue":{}}},{"key":"","value":null}]}}"#,
            r#"{\"\":null,\"<\":{},\"a\":true,\"z\":\"NaN\"}"#,
        ),
        ("{}", ""),
        ("null", ""),
    ];
    for (body, line) in cases {
        let json = with_record(&format!(r#"{{"timeUnixNano":1,"body":{body}}}"#));
        assert_eq!(print_json(&json), format!("{{}}\n1 {line} []"), "{body}");
    }
}

#[test]
fn severities_have_names_and_numbers() {
    let cases = [
        ("\"SEVERITY_NUMBER_INFO\"", "[severity_number=9]"),
        ("\"SEVERITY_NUMBER_FATAL4\"", "[severity_number=24]"),
        ("\"SEVERITY_NUMBER_UNSPECIFIED\"", "[]"),
        ("\"17\"", "[severity_number=17]"),
        ("-3", "[severity_number=-3]"),
        ("25", "[severity_number=25]"),
        ("-2147483648", "[severity_number=-2147483648]"),
        ("null", "[]"),
    ];
    for (number, metadata) in cases {
        let json = with_record(&format!(r#"{{"severityNumber":{number}}}"#));
        assert_eq!(print_json(&json), format!("{{}}\n99  {metadata}"), "{number}");
    }
    for bad in [
        "\"SEVERITY_NUMBER_INFO22\"",
        "\"SEVERITY_NUMBER_X\"",
        "1.5",
        "[]",
        "2147483648",
        "\"-2147483649\"",
    ] {
        let json = with_record(&format!(r#"{{"severityNumber":{bad}}}"#));
        assert!(print_json(&json).starts_with("! "), "{bad}");
    }
}

#[test]
fn severity_texts_can_be_labels() {
    let json = with_record(r#"{"severityText":"Warn"}"#);
    let mut message = Vec::new();
    transcode_json(json.as_bytes(), &mut message).expect("valid JSON");
    let request = LogsRequest::protobuf(&message).expect("a valid message");
    let resource = request.resources().next().expect("one resource");
    let record = resource.scopes().next().and_then(|scope| scope.records().next());
    let record = record.expect("one record");
    let labels = record_labels(&Labels::empty(), &record, &Rules { severity_label: true });
    assert_eq!(labels.map(|labels| labels.canonical()), Some("{severity_text=\"Warn\"}".into()));
    assert_eq!(record_labels(&Labels::empty(), &record, &RULES), None);
}

#[test]
fn malformed_json_is_refused() {
    let cases = [
        ("", "EOF"),
        ("{", "expected a name in an object"),
        ("[]", "expected an object"),
        (r#"{"resourceLogs":{}}"#, "expected an array"),
        (r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[5]}]}]}"#, "expected an object"),
    ];
    for (json, expected) in cases {
        let printed = print_json(json);
        assert!(printed.starts_with("! ") && printed.ends_with(expected), "{json}: {printed}");
    }
    for record in [
        r#"{"timeUnixNano":"x"}"#,
        r#"{"timeUnixNano":1.5}"#,
        r#"{"traceId":"0"}"#,
        r#"{"traceId":"zz"}"#,
        r#"{"body":{"bytesValue":"*"}}"#,
        r#"{"body":{"boolValue":1}}"#,
        r#"{"body":{"doubleValue":"x"}}"#,
        r#"{"body":"text"}"#,
        r#"{"severityText":5}"#,
    ] {
        assert!(print_json(&with_record(record)).starts_with("! "), "{record}");
    }
    // Unknown fields are skipped, and an absent value counts as null.
    for json in
        ["{}", r#"{"x":[{"y":1}],"resourceLogs":null}"#, r#"{"resourceLogs":[null]} behind"#]
    {
        assert_eq!(print_json(json), "", "{json}");
    }
}

#[test]
fn names_that_cannot_be_stored_are_refused() {
    let attribute = |key: &str, value: &str| {
        with_record(&format!(r#"{{"attributes":[{{"key":"{key}","value":{value}}}]}}"#))
    };
    let text = r#"{"stringValue":"x"}"#;
    assert_eq!(print_json(&attribute("", text)), "{}\n! symbolizer lookup: label name is empty");
    assert_eq!(
        print_json(&attribute("..", text)),
        "{}\n! symbolizer lookup: normalization for label name \"..\" resulted in invalid name \"_\""
    );
    assert_eq!(print_json(&attribute("", "{}")), "{}\n99  []");
    let map = |name: &str| {
        format!(r#"{{"kvlistValue":{{"values":[{{"key":"{name}","value":{text}}}]}}}}"#)
    };
    assert_eq!(print_json(&attribute("-", &map("a"))), "{}\n99  [_a=x]");
    assert!(print_json(&attribute("-", &map("-"))).starts_with("{}\n! symbolizer lookup: "));
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| {
        let open = r#"{"arrayValue":{"values":["#.repeat(depth);
        with_record(&format!(r#"{{"body":{open}{}}}"#, "]}}".repeat(depth)))
    };
    assert!(print_json(&nested(MAX_DEPTH)).contains("[[[["), "allowed");
    for depth in [MAX_DEPTH + 2, MAX_DEPTH + 50] {
        assert_eq!(print_json(&nested(depth)), format!("{{}}\n! {}", RecordError::TooDeep));
    }
    // The same in protobuf: an array in an array, lengths from the inside out.
    let mut message = Vec::new();
    for number in std::iter::repeat_n([1u8, 5], MAX_DEPTH + 2).flatten().chain([5, 2, 2, 1]) {
        let mut outer = vec![number << 3 | 2];
        crate::varint::write(&mut outer, message.len() as u64);
        outer.extend_from_slice(&message);
        message = outer;
    }
    let too_deep = format!("{{}}\n! {}", RecordError::TooDeep);
    assert_eq!(print(&message), Ok(too_deep));
}

#[test]
fn joined_names_cannot_blow_up() {
    let pair = r#"{"key":"a","value":{"intValue":1}}"#;
    let pairs = vec![pair; 2_000].join(",");
    let json = with_record(&format!(
        r#"{{"attributes":[{{"key":"{}","value":{{"kvlistValue":{{"values":[{pairs}]}}}}}}]}}"#,
        "n".repeat(100_000)
    ));
    assert_eq!(print_json(&json), "{}\n! names of nested values are too long");
}

#[test]
fn errors_are_encoded_as_the_sdks_decode_them() {
    assert_eq!(encode_status("abc"), b"\x12\x03abc");
    let long = "x".repeat(200);
    assert_eq!(encode_status(&long)[..3], [0x12, 0xc8, 0x01]);
}

#[test]
fn what_cannot_be_stored_refuses_the_records_that_have_it() {
    let bad = r#"{"key":"日本","value":{"stringValue":"x"}}"#;
    let bad_label = r#"{"key":"label","value":{"kvlistValue":{"values":[
        {"key":"ok","value":{"stringValue":"x"}}]}}},{"key":"","value":{"intValue":1}}"#;
    let deep = format!(
        r#"{{"key":"deep","value":{}{{"intValue":1}}{}}}"#,
        r#"{"kvlistValue":{"values":[{"key":"k","value":"#.repeat(MAX_DEPTH + 1),
        "}]}}".repeat(MAX_DEPTH + 1)
    );
    let record = |time_ns: u64, attributes: &str| {
        format!(r#"{{"timeUnixNano":"{time_ns}","attributes":[{attributes}]}}"#)
    };
    let scope = |attributes: &str, records: &[String]| {
        format!(
            r#"{{"scope":{{"attributes":[{attributes}]}},"logRecords":[{}]}}"#,
            records.join(",")
        )
    };
    let resource = |attributes: &str, scopes: &[String]| {
        format!(
            r#"{{"resource":{{"attributes":[{attributes}]}},"scopeLogs":[{}]}}"#,
            scopes.join(",")
        )
    };
    let name =
        r#"! symbolizer lookup: normalization for label name "日本" resulted in invalid name "_""#;
    let too_late = "! the time of the record, 9223372036854775808 ns since 1970, is later than \
                    can be stored";
    let good = [record(7, "")];
    let records = [
        record(1, ""),
        record(2, bad),
        record(3, ""),
        record(4, &deep),
        record(1 << 63, ""),
        record((1 << 63) - 1, ""),
        record(6, bad_label),
    ];
    let scopes = [scope("", &records), scope(bad, &good), scope("", &good)];
    let resources = [
        resource("", &scopes),
        resource(bad, &[scope("", &good), scope(bad, &good)]),
        resource(bad_label, &[scope("", &good)]),
        resource("", &[scope("", &good)]),
    ];
    let json = format!(r#"{{"resourceLogs":[{}]}}"#, resources.join(","));
    let empty = "! symbolizer lookup: label name is empty";
    let expected = [
        "{}",
        "1  []",
        name,
        "3  []",
        "! values are nested more than 64 levels deep",
        too_late,
        "9223372036854775807  []",
        "+{label_ok=\"x\"}",
        empty,
        name,
        "7  []",
        "{}",
        name,
        name,
        "{label_ok=\"x\"}",
        empty,
        "{}",
        "7  []",
    ];
    assert_eq!(print_json(&json), expected.join("\n"));
    // A record without a time of its own happened when it was seen.
    let seen = with_record(r#"{"observedTimeUnixNano":"18446744073709551615"}"#);
    assert!(print_json(&seen).contains("! the time of the record, 18446744073709551615 ns"));
    // An attribute that is not stored may have any name.
    let json = with_record(
        r#"{"attributes":[{"key":"drop","value":{"kvlistValue":{"values":[
            {"key":"","value":{"intValue":1}}]}}}]}"#,
    );
    assert_eq!(print_json(&json), "{}\n99  []");
}

#[test]
fn numbers_that_do_not_fit_are_refused_and_never_changed() {
    let body = |value: &str| with_record(&format!(r#"{{"body":{value}}}"#));
    let bad_bodies = [
        r#"{"intValue":"12345678901234567890"}"#,
        r#"{"intValue":12345678901234567890}"#,
        r#"{"intValue":9223372036854775808}"#,
        r#"{"intValue":"-9223372036854775809"}"#,
        r#"{"intValue":"+1"}"#,
        r#"{"intValue":""}"#,
        r#"{"intValue":1.0}"#,
        r#"{"intValue":1e3}"#,
        r#"{"doubleValue":1e400}"#,
        r#"{"doubleValue":-1e400}"#,
        r#"{"doubleValue":"1e309"}"#,
        r#"{"arrayValue":{"values":[{"intValue":"9223372036854775808"}]}}"#,
        r#"{"kvlistValue":{"values":[{"key":"a","value":{"doubleValue":1e999}}]}}"#,
    ];
    let bad_records = [
        r#"{"flags":4294967297}"#,
        r#"{"flags":4294967296}"#,
        r#"{"flags":"-1"}"#,
        r#"{"flags":1.5}"#,
        r#"{"droppedAttributesCount":4294967296}"#,
        r#"{"droppedAttributesCount":-1}"#,
        r#"{"severityNumber":4294967297}"#,
        r#"{"timeUnixNano":"18446744073709551616"}"#,
        r#"{"timeUnixNano":-5}"#,
        r#"{"timeUnixNano":"-5"}"#,
        r#"{"timeUnixNano":1.7e18}"#,
        r#"{"observedTimeUnixNano":"-1"}"#,
        r#"{"attributes":[{"key":"a","value":{"intValue":"9223372036854775808"}}]}"#,
    ];
    let scope = r#"{"resourceLogs":[{"scopeLogs":[{"scope":{"droppedAttributesCount":4294967296},
        "logRecords":[{}]}]}]}"#;
    let bad = bad_bodies.map(body).into_iter().chain(bad_records.map(with_record));
    for json in bad.chain([scope.to_owned()]) {
        let printed = print_json(&json);
        assert!(printed.starts_with("! invalid JSON push at byte "), "{json}: {printed}");
        assert!(printed.contains("expected a "), "{json}: {printed}");
    }
    let good = [
        (r#"{"intValue":"9223372036854775807"}"#, "9223372036854775807"),
        (r#"{"intValue":-9223372036854775808}"#, "-9223372036854775808"),
        (r#"{"doubleValue":1.7976931348623157e308}"#, "1.7976931348623157e+308"),
        (r#"{"doubleValue":"Infinity"}"#, "+Inf"),
    ];
    for (value, line) in good {
        assert_eq!(print_json(&body(value)), format!("{{}}\n99 {line} []"), "{value}");
    }
    let record = r#"{"flags":4294967295,"droppedAttributesCount":"4294967295",
        "timeUnixNano":1,"observedTimeUnixNano":"18446744073709551615"}"#;
    assert_eq!(
        print_json(&with_record(record)),
        "{}\n1  [observed_timestamp=18446744073709551615 dropped_attributes_count=4294967295 \
         flags=4294967295]"
    );
}

#[test]
fn protobuf_numbers_of_32_bits_are_not_cut() {
    /// A request with one record that has a varint in a field.
    fn with_field(field: u8, number: u64) -> Vec<u8> {
        let mut message = vec![field << 3];
        crate::varint::write(&mut message, number);
        for number in [2u8, 2, 1] {
            let mut outer = vec![number << 3 | 2];
            crate::varint::write(&mut outer, message.len() as u64);
            outer.extend_from_slice(&message);
            message = outer;
        }
        message
    }
    const SEVERITY: u8 = 2;
    const DROPPED: u8 = 7;
    let good = [
        (SEVERITY, 17, "severity_number=17"),
        (SEVERITY, u64::MAX, "severity_number=-1"),
        (SEVERITY, i32::MIN as i64 as u64, "severity_number=-2147483648"),
        (DROPPED, u64::from(u32::MAX), "dropped_attributes_count=4294967295"),
    ];
    for (field, number, pair) in good {
        assert_eq!(print(&with_field(field, number)), Ok(format!("{{}}\n99  [{pair}]")));
    }
    let bad = [
        (SEVERITY, (1 << 32) + 1, "4294967297 is out of range for field SeverityNumber"),
        (SEVERITY, 1 << 31, "2147483648 is out of range for field SeverityNumber"),
        (DROPPED, 1 << 32, "4294967296 is out of range for field DroppedAttributesCount"),
        (
            DROPPED,
            u64::MAX,
            "18446744073709551615 is out of range for field DroppedAttributesCount",
        ),
    ];
    for (field, number, problem) in bad {
        let printed = print(&with_field(field, number)).map_err(|error| error.to_string());
        assert_eq!(printed, Err(format!("proto: {problem}")));
    }
}
