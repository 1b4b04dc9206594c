//! Limits that a request sets for itself (`X-Loki-Query-Limits`).
//!
//! They are heeded with `querier.per_request_limits_enabled`, and only ever make a limit stricter.
//! A header that does not parse is ignored, as the reference does: the header comes from a proxy
//! more often than from the user.

use logsvc_http::RequestHead;
use logsvc_proto::time::{parse_byte_size, parse_model_duration_ns};
use serde::Deserialize;

use crate::config::Limits;

const HEADER: &str = "x-loki-query-limits";

/// Durations are texts such as `1h`, a size is a text or a number.
#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Raw {
    max_query_length: Option<String>,
    max_query_interval: Option<String>,
    max_query_lookback: Option<String>,
    max_entries_limit_per_query: Option<u32>,
    max_query_time: Option<String>,
    required_labels: Vec<String>,
    minimum_labels_number: Option<u32>,
    max_query_bytes_read: Option<serde_json::Value>,
}

/// The header of a request as limits of a tenant that has no others; `None` if it does not parse.
pub(super) fn of(head: &RequestHead) -> Option<Limits> {
    parse(head.header(HEADER)?)
}

fn parse(text: &str) -> Option<Limits> {
    // A list would pass for an object without names.
    let raw: Raw = serde_json::from_str(text.trim_start().strip_prefix('{').map(|_| text)?).ok()?;
    let duration_ns = |text: Option<String>| match text {
        None => Some(0),
        Some(text) => parse_model_duration_ns(&text).ok().filter(|&ns| ns >= 0),
    };
    let bytes = match raw.max_query_bytes_read {
        None => 0,
        Some(serde_json::Value::Number(number)) => number.as_u64()?,
        Some(serde_json::Value::String(text)) => parse_byte_size(&text)?,
        Some(_) => return None,
    };
    let count = |count: Option<u32>| count.unwrap_or_default() as usize;
    Some(Limits {
        max_query_length_ns: duration_ns(raw.max_query_length)?,
        max_query_range_ns: duration_ns(raw.max_query_interval)?,
        max_query_lookback_ns: duration_ns(raw.max_query_lookback)?,
        max_entries_limit_per_query: count(raw.max_entries_limit_per_query),
        query_timeout_ns: duration_ns(raw.max_query_time)?,
        required_labels: raw.required_labels,
        minimum_labels_number: count(raw.minimum_labels_number),
        max_query_bytes_read: bytes,
        ..Limits::unlimited_queries()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_makes_limits_stricter_and_never_looser() {
        let tenant = Limits {
            max_query_bytes_read: 1000,
            minimum_labels_number: 1,
            required_labels: vec!["app".to_owned()],
            ..Limits::default()
        };
        let tightened = |text: &str| {
            let mut limits = tenant.clone();
            limits.tighten(&parse(text).unwrap_or_else(|| panic!("{text}")));
            limits
        };
        assert_eq!(tightened("{}"), tenant);
        let loose = r#"{"maxQueryLength": "10y", "maxQueryTime": "1h", "unknown": [1],
            "maxEntriesLimitPerQuery": 100000, "maxQueryBytesRead": "1TB", "minimumLabelsNumber": 0}"#;
        assert_eq!(tightened(loose), tenant);
        let strict = r#"{"maxQueryLength": "1h", "maxQueryInterval": "5m", "maxQueryLookback": "2d",
            "maxEntriesLimitPerQuery": 10, "maxQueryTime": "5s", "requiredLabels": ["app", "env"],
            "minimumLabelsNumber": 2, "maxQueryBytesRead": 100}"#;
        let second_ns = 1_000_000_000;
        let expected = Limits {
            max_query_length_ns: 3600 * second_ns,
            max_query_range_ns: 300 * second_ns,
            max_query_lookback_ns: 172_800 * second_ns,
            max_entries_limit_per_query: 10,
            query_timeout_ns: 5 * second_ns,
            required_labels: vec!["app".to_owned(), "env".to_owned()],
            minimum_labels_number: 2,
            max_query_bytes_read: 100,
            ..tenant.clone()
        };
        assert_eq!(tightened(strict), expected);
    }

    #[test]
    fn what_does_not_parse_is_ignored() {
        for text in [
            "",
            "no JSON",
            "[]",
            r#"{"maxQueryLength": "soon"}"#,
            r#"{"maxQueryLength": 5}"#,
            r#"{"maxEntriesLimitPerQuery": -1}"#,
            r#"{"maxQueryBytesRead": "much"}"#,
            r#"{"maxQueryBytesRead": [1]}"#,
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
