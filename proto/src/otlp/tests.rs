use super::*;
use crate::labels::Labels;

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

/// What becomes of a request: labels, then an entry a line.
fn print(message: &[u8]) -> Result<String, OtlpError> {
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
                let entry = assembler.entry(&record, &RULES, NOW_NS);
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
1773900000000000000 a \\\"line\\\" [http.method=GET m_in.ner=v m_deep_er=1.5 arr=[\\\"x\\\",1,null] \
by=AQID observed_timestamp=1773900000000000001 severity_number=13 severity_text=WARN \
dropped_attributes_count=3 flags=1 trace_id=0af7651916cd43dd8448eb211c80319c \
span_id=b7ad6b7169203331 event_name=evt host.name=h sa=false scope_name=lib scope_version=1.2 \
scope_dropped_attributes_count=4]
7 second [host.name=h sa=false scope_name=lib scope_version=1.2 scope_dropped_attributes_count=4]
99  [host.name=h sa=false scope_name=lib scope_version=1.2 scope_dropped_attributes_count=4]
5  [host.name=h]";
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
        ("-3", "[]"),
        ("null", "[]"),
    ];
    for (number, metadata) in cases {
        let json = with_record(&format!(r#"{{"severityNumber":{number}}}"#));
        assert_eq!(print_json(&json), format!("{{}}\n99  {metadata}"), "{number}");
    }
    for bad in ["\"SEVERITY_NUMBER_INFO22\"", "\"SEVERITY_NUMBER_X\"", "1.5", "[]"] {
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
    // What nobody knows is skipped, and nothing is as good as null.
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
    assert_eq!(print_json(&attribute("", text)), "! symbolizer lookup: label name is empty");
    assert_eq!(
        print_json(&attribute("..", text)),
        "! symbolizer lookup: normalization for label name \"..\" resulted in invalid name \"_\""
    );
    assert_eq!(print_json(&attribute("", "{}")), "{}\n99  []");
    let map = |name: &str| {
        format!(r#"{{"kvlistValue":{{"values":[{{"key":"{name}","value":{text}}}]}}}}"#)
    };
    assert_eq!(print_json(&attribute("-", &map("a"))), "{}\n99  [-_a=x]");
    assert!(print_json(&attribute("-", &map("-"))).starts_with("! symbolizer lookup: "));
}

#[test]
fn nesting_is_bounded() {
    let nested = |depth: usize| {
        let open = r#"{"arrayValue":{"values":["#.repeat(depth);
        with_record(&format!(r#"{{"body":{open}{}}}"#, "]}}".repeat(depth)))
    };
    assert!(print_json(&nested(MAX_DEPTH)).contains("[[[["), "allowed");
    assert!(print_json(&nested(MAX_DEPTH + 2)).contains("too deeply"));
    // The same in protobuf: an array in an array, lengths from the inside out.
    let mut message = Vec::new();
    for number in std::iter::repeat_n([1u8, 5], MAX_DEPTH + 2).flatten().chain([5, 2, 2, 1]) {
        let mut outer = vec![number << 3 | 2];
        crate::varint::write(&mut outer, message.len() as u64);
        outer.extend_from_slice(&message);
        message = outer;
    }
    assert_eq!(print(&message), Err(OtlpError::TooDeep));
}

#[test]
fn joined_names_cannot_blow_up() {
    let pair = r#"{"key":"a","value":{"intValue":1}}"#;
    let pairs = vec![pair; 2_000].join(",");
    let json = with_record(&format!(
        r#"{{"attributes":[{{"key":"{}","value":{{"kvlistValue":{{"values":[{pairs}]}}}}}}]}}"#,
        "n".repeat(100_000)
    ));
    assert_eq!(print_json(&json), "! names of nested values are too long");
}

#[test]
fn errors_are_encoded_as_the_sdks_decode_them() {
    assert_eq!(encode_status("abc"), b"\x12\x03abc");
    let long = "x".repeat(200);
    assert_eq!(encode_status(&long)[..3], [0x12, 0xc8, 0x01]);
}
