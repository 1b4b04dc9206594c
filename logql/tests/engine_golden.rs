//! Queries over small data sets, with the answers of Loki.
//!
//! `tests/engine/*.jsonl` holds one example per line. Where a row carries a
//! `fix`, the answer of Loki is a defect that is not copied (M138 breaks the order of
//! series that Loki follows elsewhere, and sums that are rounded on the way lose their last
//! digits), and `fix` is the answer wanted instead.

use logsvc_logql::engine::testing::{QueryError, TestEntry, TestStore};
use logsvc_logql::engine::{Direction, PlanError, QueryParams, QueryResult, ResultPoint};
use logsvc_proto::Labels;
use serde_json::{Value, json};

const SECOND_NS: i64 = 1_000_000_000;
/// A multiple of 60 s since the epoch, as Loki's examples want.
const BASE_S: i64 = 1_700_000_040;

fn rows(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("fixture is JSON")).collect()
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    Labels::from_pairs(pairs.iter().copied()).expect("valid labels")
}

fn at(seconds: f64) -> i64 {
    BASE_S * SECOND_NS + (seconds * 1e9).round() as i64
}

fn text<'v>(row: &'v Value, key: &str) -> &'v str {
    row[key].as_str().unwrap_or_else(|| panic!("{row} lacks {key}"))
}

fn expected_error(row: &Value) -> Option<&str> {
    let status_and_text = row.get("err")?.as_str()?;
    status_and_text.split_once(' ').map(|(_, text)| text)
}

/// Rows that name a stage that is not built yet answer `Unsupported`.
fn is_pending(result: &Result<QueryResult, QueryError>) -> bool {
    matches!(result, Err(QueryError::Plan(PlanError::Unsupported(_))))
}

fn check_error(row: &Value, result: &Result<QueryResult, QueryError>) {
    let wanted = expected_error(row).expect("the row wants an error");
    match result {
        Ok(result) => panic!("{row}: got {result:?}"),
        Err(error) => {
            let message = error.to_string();
            assert_eq!(message.lines().next(), Some(wanted), "{row}");
        }
    }
}

#[test]
fn line_filter_examples() {
    let lines = [
        "GET /cart 200 12ms",
        "POST /cart 500 1.2s",
        "get /health 200 1ms",
        "client 10.1.2.3 closed",
        "multi\nline body",
    ];
    let mut store = TestStore::new();
    for (seconds, line) in (0..).zip(lines) {
        store.push_line(&labels(&[("app", "t")]), at(f64::from(seconds)), line);
    }
    let mut params = QueryParams::range(at(0.0), at(100.0), SECOND_NS);
    params.direction = Direction::Forward;
    for row in rows(include_str!("engine/line_filters.jsonl")) {
        let result = store.query(&format!("{{app=\"t\"}} {}", text(&row, "q")), &params);
        if row.get("err").is_some() {
            check_error(&row, &result);
            continue;
        }
        let QueryResult::Streams(streams) = result.unwrap_or_else(|e| panic!("{row}: {e}")) else {
            panic!("{row}: not streams");
        };
        let kept: Vec<i64> = streams
            .iter()
            .flat_map(|stream| &stream.entries)
            .map(|entry| (entry.timestamp_ns - at(0.0)) / SECOND_NS)
            .collect();
        assert_eq!(json!(kept), row["keep"], "{row}");
    }
}

fn json_labels(labels: &Labels) -> Value {
    labels.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

/// A timestamp in seconds after the base, as an integer where it is one.
fn json_seconds(timestamp_ns: i64) -> Value {
    json!((timestamp_ns - at(0.0)) / SECOND_NS)
}

fn parameter_seconds(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{row} lacks {key}"))
}

#[test]
fn log_result_examples() {
    let mut store = TestStore::new();
    let a = labels(&[("app", "m"), ("s", "a")]);
    for (seconds, line) in [(1, "a1"), (2, "a2"), (2, "a2bis"), (2, "a2"), (3, "a3")] {
        store.push_line(&a, at(f64::from(seconds)), line);
    }
    let b = labels(&[("app", "m"), ("s", "b")]);
    for (seconds, line) in [(1, "b1"), (2, "b2"), (4, "b4")] {
        store.push_line(&b, at(f64::from(seconds)), line);
    }
    let mut pending = Vec::new();
    let mut checked = 0;
    for row in rows(include_str!("engine/log_results.jsonl")) {
        let mut params = QueryParams::range(
            at(parameter_seconds(&row, "start")),
            at(parameter_seconds(&row, "end")),
            SECOND_NS,
        );
        // Limits and directions out of range are the business of the HTTP layer.
        match row.get("limit").and_then(Value::as_u64) {
            Some(limit) if limit == 0 || limit > 5000 => continue,
            Some(limit) => params.limit = usize::try_from(limit).expect("small"),
            None => {}
        }
        match row.get("direction").and_then(Value::as_str).map(str::to_lowercase).as_deref() {
            Some("forward") => params.direction = Direction::Forward,
            Some("up") => continue,
            _ => {}
        }
        if row.get("interval").is_some() {
            params.interval_ns = 2 * SECOND_NS;
        }
        let result = store.query(text(&row, "q"), &params);
        if is_pending(&result) {
            pending.push(text(&row, "id").to_owned());
            continue;
        }
        checked += 1;
        if row.get("err").is_some() {
            check_error(&row, &result);
            continue;
        }
        let QueryResult::Streams(streams) = result.unwrap_or_else(|e| panic!("{row}: {e}")) else {
            panic!("{row}: not streams");
        };
        let out: Value = streams
            .iter()
            .map(|stream| {
                let entries: Value = stream
                    .entries
                    .iter()
                    .map(|entry| {
                        let line = String::from_utf8_lossy(&entry.line);
                        json!([json_seconds(entry.timestamp_ns), line])
                    })
                    .collect();
                json!([json_labels(&stream.labels), entries])
            })
            .collect();
        assert_eq!(out, row["out"], "{row}");
    }
    assert_eq!(pending, PENDING_LOG_ROWS);
    assert_eq!(checked + pending.len(), 17);
}

/// Rows of `log_results.jsonl` whose stages do not exist yet.
const PENDING_LOG_ROWS: [&str; 0] = [];

fn metric_store(dataset: &str) -> TestStore {
    let mut store = TestStore::new();
    let app = labels(&[("app", "m")]);
    match dataset {
        "M1" => {
            for (seconds, value) in [(0, 1), (10, 2), (20, 3), (30, 5), (40, 2), (50, 4), (60, 6)] {
                store.push_line(&app, at(f64::from(seconds)), &format!("v={value}"));
            }
        }
        "M2" => {
            for (env, svc, n) in
                [("p", "a", 3), ("p", "b", 1), ("q", "c", 2), ("q", "d", 2), ("r", "e", 5)]
            {
                let stream = labels(&[("app", "m"), ("env", env), ("svc", svc)]);
                for second in 1..=n {
                    store.push_line(&stream, at(f64::from(second)), &format!("v={second}"));
                }
            }
        }
        "M3" => {
            let lines = [
                r#"{"lvl":"info","lat":"250ms","sz":"1KB","n":5}"#,
                r#"{"lvl":"warn","lat":"1s","sz":"2KiB","n":7}"#,
                r#"{"lvl":"info","lat":"bad","sz":"xx","n":"abc"}"#,
                "not json",
                r#"{"lvl":"info","lat":"750ms","sz":"5 MB","n":1e2}"#,
                r#"{"lvl":"err","n":""}"#,
                r#"{"lvl":"err","n":"Inf"}"#,
            ];
            for (second, line) in (1..).zip(lines) {
                store.push_line(&app, at(f64::from(second)), line);
            }
        }
        "M4" => {
            let entries: [(&str, &[(&str, &str)]); 4] = [
                ("u=a x=1", &[("app", "smv"), ("t", "1")]),
                ("u=b x=2", &[("t", "2")]),
                ("u=a x=3", &[("t", "1")]),
                ("u=a t=9 x=4", &[("t", "1")]),
            ];
            for (second, (line, metadata)) in (1..).zip(entries) {
                let metadata =
                    metadata.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
                let timestamp_ns = at(f64::from(second));
                store.push(&app, TestEntry { timestamp_ns, line: line.into(), metadata });
            }
        }
        other => panic!("unknown data set {other}"),
    }
    store
}

fn params_of(row: &Value) -> QueryParams {
    match row.get("range").and_then(Value::as_array) {
        Some(range) => {
            let seconds = |i: usize| range[i].as_f64().expect("a number");
            QueryParams::range(at(seconds(0)), at(seconds(1)), (seconds(2) * 1e9) as i64)
        }
        None => QueryParams::instant(at(parameter_seconds(row, "at"))),
    }
}

/// Values as the interface prints them.
fn json_value(value: f64) -> Value {
    if value.is_nan() {
        json!("NaN")
    } else if value.is_infinite() {
        json!(if value > 0.0 { "+Inf" } else { "-Inf" })
    } else {
        json!(format!("{value}"))
    }
}

fn json_point(point: &ResultPoint) -> Value {
    let seconds = (point.timestamp_ms - BASE_S * 1000) / 1000;
    json!([seconds, json_value(point.value)])
}

fn json_metric(result: &QueryResult) -> Value {
    match result {
        QueryResult::Scalar { value, .. } => json_value(*value),
        QueryResult::Vector(samples) => samples
            .iter()
            .map(|sample| json!([json_labels(&sample.labels), json_value(sample.point.value)]))
            .collect(),
        QueryResult::Matrix(matrix) => matrix
            .iter()
            .map(|series| {
                let points: Value = series.points.iter().map(json_point).collect();
                json!([json_labels(&series.labels), points])
            })
            .collect(),
        QueryResult::Streams(_) => panic!("a metric query gave streams"),
    }
}

/// Where Loki leaves an order open, sorts both sides.
fn with_free_order_sorted(id: &str, mut value: Value) -> Value {
    match (id, &mut value) {
        ("M096", Value::Array(series)) => {
            for one in series {
                if let Some(points) = one[1].as_array_mut() {
                    points.sort_by_key(Value::to_string);
                }
            }
        }
        ("M091", Value::Array(samples)) => samples.sort_by_key(Value::to_string),
        _ => {}
    }
    value
}

#[test]
fn metric_examples() {
    let mut pending = 0;
    let mut checked = 0;
    for row in rows(include_str!("engine/metrics.jsonl")) {
        let id = text(&row, "id");
        let store = metric_store(text(&row, "ds"));
        let result = store.query(text(&row, "q"), &params_of(&row));
        if is_pending(&result) {
            pending += 1;
            continue;
        }
        checked += 1;
        if row.get("err").is_some() {
            check_error(&row, &result);
            continue;
        }
        let result = json_metric(&result.unwrap_or_else(|e| panic!("{row}: {e}")));
        let wanted = row.get("fix").unwrap_or(&row["out"]);
        assert_eq!(
            with_free_order_sorted(id, result),
            with_free_order_sorted(id, wanted.clone()),
            "{row}"
        );
    }
    assert_eq!((checked, pending), EXAMPLES_CHECKED_AND_PENDING);
}

/// The examples that unwrap a label of `logfmt`, with the label taken from
/// structured metadata instead, which changes nothing in the answer.
#[test]
fn unwrap_examples_over_structured_metadata() {
    let mut store = TestStore::new();
    for (seconds, value) in [(0, 1), (10, 2), (20, 3), (30, 5), (40, 2), (50, 4), (60, 6)] {
        let entry = TestEntry {
            timestamp_ns: at(f64::from(seconds)),
            line: format!("v={value}").into(),
            metadata: vec![("v".to_owned(), value.to_string())],
        };
        store.push(&labels(&[("app", "m")]), entry);
    }
    let mut checked = 0;
    for row in rows(include_str!("engine/metrics.jsonl")) {
        let query = text(&row, "q");
        if text(&row, "ds") != "M1" || !query.contains("| logfmt | unwrap v") {
            continue;
        }
        let query = query.replace("| logfmt | unwrap v", "| unwrap v");
        let result = store.query(&query, &params_of(&row));
        let result = json_metric(&result.unwrap_or_else(|e| panic!("{row}: {e}")));
        assert_eq!(&result, row.get("fix").unwrap_or(&row["out"]), "{row}");
        checked += 1;
    }
    assert_eq!(checked, 22);
}

#[test]
fn unwrapping_converts_skips_and_fails_as_described() {
    let mut store = TestStore::new();
    for (second, name, value) in
        [(1, "d", "250ms"), (2, "d", "1s"), (3, "b", "1KB"), (4, "n", ""), (5, "bad", "x")]
    {
        let entry = TestEntry {
            timestamp_ns: at(f64::from(second)),
            line: b"line".to_vec(),
            metadata: vec![(name.to_owned(), value.to_owned())],
        };
        store.push(&labels(&[("app", "m")]), entry);
    }
    let params = QueryParams::instant(at(30.0));
    let value = |query: &str| {
        store.query(query, &params).map(|result| json_metric(&result)).map_err(|e| e.to_string())
    };
    assert_eq!(
        value(r#"sum_over_time({app="m"} | unwrap duration(d) [1m])"#),
        Ok(json!([[{"app": "m"}, "1.25"]]))
    );
    assert_eq!(
        value(r#"max_over_time({app="m"} | unwrap bytes(b) [1m]) by ()"#),
        Ok(json!([[{}, "1000"]]))
    );
    assert_eq!(value(r#"sum_over_time({app="m"} | unwrap n [1m])"#), Ok(json!([])));
    assert_eq!(
        value(r#"absent_over_time({app="m"} | unwrap n [1m])"#),
        Ok(json!([[{"app": "m"}, "1"]]))
    );
    assert_eq!(value(r#"absent_over_time({app="m"} | unwrap duration(d) [1m])"#), Ok(json!([])));
    let error = value(r#"sum_over_time({app="m"} | unwrap bad [1m])"#).expect_err("no number");
    assert_eq!(
        error.lines().next(),
        Some(
            r#"pipeline error: 'SampleExtractionErr' for series: '{__error__="SampleExtractionErr", __error_details__="strconv.ParseFloat: parsing \"x\": invalid syntax", app="m", bad="x"}'."#
        )
    );
}

/// Rows of `metrics.jsonl` that are executed, and that name a stage that does not
/// exist yet.
const EXAMPLES_CHECKED_AND_PENDING: (u32, u32) = (149, 0);
