//! Queries, and the content of their answers.

use std::fmt::Write;

use serde_json::Value;

use super::Client;

/// Most lines that a server of default settings gives at once.
const PAGE_LINES: usize = 5000;

/// `path?name=value&...` with everything escaped.
pub(crate) fn target(path: &str, params: &[(&str, &str)]) -> String {
    format!("{path}?{}", form(params))
}

/// Parameters as a URL query or a form body has them.
pub(crate) fn form(params: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in params {
        let separator = if text.is_empty() { "" } else { "&" };
        write!(text, "{separator}{}={}", escape(name), escape(value)).expect("writing to memory");
    }
    text
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            write!(escaped, "%{byte:02X}").expect("writing to memory");
        }
    }
    escaped
}

/// `data` of a range query.
#[track_caller]
pub(crate) fn range(client: &mut Client, query: &str, more: &[(&str, &str)]) -> Value {
    let params = [&[("query", query)], more].concat();
    // With index labels only, metadata does not split streams.
    let headers = [("X-Loki-Response-Encoding-Flags", "categorize-labels")];
    let target = target("/loki/api/v1/query_range", &params);
    let mut answer = client.request("GET", &target, &headers, None).json();
    assert_eq!(answer["status"], "success");
    answer["data"].take()
}

/// `data` of an instant query.
#[track_caller]
pub(crate) fn instant(client: &mut Client, query: &str, time_ns: i64) -> Value {
    let time = time_ns.to_string();
    let params = [("query", query), ("time", time.as_str())];
    let mut answer = client.get(&target("/loki/api/v1/query", &params)).json();
    assert_eq!(answer["status"], "success");
    answer["data"].take()
}

/// Times and lines of a result of streams, one stream after another.
pub(crate) fn lines(data: &Value) -> Vec<(i64, String)> {
    assert_eq!(data["resultType"], "streams", "{data}");
    let streams = data["result"].as_array().expect("a list of streams");
    let values = |stream: &Value| stream["values"].as_array().expect("values").clone();
    streams.iter().flat_map(values).map(|value| read_value(&value)).collect()
}

fn read_value(value: &Value) -> (i64, String) {
    let time = value[0].as_str().and_then(|text| text.parse().ok()).expect("a time in ns");
    (time, value[1].as_str().expect("a line").to_owned())
}

/// Just the lines.
pub(crate) fn texts(data: &Value) -> Vec<String> {
    lines(data).into_iter().map(|(_, line)| line).collect()
}

/// All lines of one stream in `start_ns..end_ns`, oldest first, page by page. No
/// more entries than fill a page may have one timestamp.
pub(crate) fn all_lines(
    client: &mut Client,
    selector: &str,
    start_ns: i64,
    end_ns: i64,
) -> Vec<(i64, String)> {
    let (mut from_ns, end, limit) = (start_ns, end_ns.to_string(), PAGE_LINES.to_string());
    let mut all: Vec<(i64, String)> = Vec::new();
    loop {
        let start = from_ns.to_string();
        let bounds = [("start", start.as_str()), ("end", &end), ("limit", &limit)];
        let params = [&bounds[..], &[("direction", "forward")]].concat();
        let mut page = lines(&range(client, selector, &params));
        if page.len() < PAGE_LINES {
            all.append(&mut page);
            return all;
        }
        // The page may have cut the entries of its last timestamp.
        let last_ns = page.last().map_or(end_ns, |&(time_ns, _)| time_ns);
        assert!(last_ns > from_ns, "more than a page has the timestamp {last_ns}");
        page.retain(|&(time_ns, _)| time_ns < last_ns);
        all.append(&mut page);
        from_ns = last_ns;
    }
}

/// The values of a vector, each with its labels as JSON text.
pub(crate) fn vector(data: &Value) -> Vec<(String, f64)> {
    assert_eq!(data["resultType"], "vector", "{data}");
    let samples = data["result"].as_array().expect("a list of samples").iter();
    let mut values: Vec<_> = samples
        .map(|sample| {
            let value = sample["value"][1].as_str().and_then(|text| text.parse().ok());
            (sample["metric"].to_string(), value.expect("a number as text"))
        })
        .collect();
    values.sort_by(|a, b| a.0.cmp(&b.0));
    values
}

/// The list of an answer of `labels`, label values or `series`.
#[track_caller]
pub(crate) fn list(client: &mut Client, path: &str, params: &[(&str, &str)]) -> Vec<Value> {
    let answer = client.get(&target(path, params)).json();
    assert_eq!(answer["status"], "success");
    // A list of nothing may be left out.
    answer["data"].as_array().cloned().unwrap_or_default()
}
