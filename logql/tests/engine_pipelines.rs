//! Pipelines over a few lines, with the answers of Loki.
//!
//! A row of `tests/engine/pipelines.jsonl` names a pipeline, the entries it reads,
//! and its output: `out` lists entries as `[index, labels, line, categories]`
//! with `"="` for an unchanged line; `keep` lists indices, and `errs` their error
//! labels. Where a row carries a `fix`, Loki's answer is a defect that is
//! not copied, and `fix` is the answer wanted instead.

use logsvc_logql::engine::testing::{QueryError, TestEntry, TestStore};
use logsvc_logql::engine::{Direction, PlanError, QueryParams, QueryResult};
use logsvc_proto::Labels;
use serde_json::{Map, Value, json};

const SECOND_NS: i64 = 1_000_000_000;

/// Number of rows that are executed, and that name a stage that does not exist yet.
const EXAMPLES_CHECKED_AND_PENDING: (u32, u32) = (280, 0);

fn pairs(value: &Value) -> Vec<(String, String)> {
    let Some(map) = value.as_object() else { return Vec::new() };
    map.iter()
        .map(|(name, value)| (name.clone(), value.as_str().expect("a string").to_owned()))
        .collect()
}

fn lines(row: &Value) -> Vec<&str> {
    match row["line"].as_str() {
        Some(line) => vec![line],
        None => row["lines"]
            .as_array()
            .unwrap_or_else(|| panic!("{row} has no lines"))
            .iter()
            .map(|line| line.as_str().expect("a string"))
            .collect(),
    }
}

fn run(row: &Value, stream: &Labels) -> Result<QueryResult, QueryError> {
    let mut store = TestStore::new();
    for (second, line) in (0..).zip(lines(row)) {
        let entry = TestEntry {
            timestamp_ns: second * SECOND_NS,
            line: line.into(),
            metadata: pairs(&row["sm"]),
        };
        store.push(stream, entry);
    }
    let mut params = QueryParams::range(0, 100 * SECOND_NS, SECOND_NS);
    params.direction = Direction::Forward;
    params.categorize_labels = row["flags"] == "categorize-labels";
    let query = format!("{{app=\"t\"}} {}", row["q"].as_str().expect("a query"));
    store.query(&query, &params)
}

fn json_labels(labels: &Labels) -> Map<String, Value> {
    labels.iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

/// The entries of a result in order, as the rows write them.
fn entries(row: &Value, result: QueryResult) -> Vec<Value> {
    let QueryResult::Streams(streams) = result else { panic!("{row}: not streams") };
    let stored = lines(row);
    let mut out = Vec::new();
    for stream in &streams {
        for entry in &stream.entries {
            let index = usize::try_from(entry.timestamp_ns / SECOND_NS).expect("small");
            let line = String::from_utf8_lossy(&entry.line);
            let line = if line == stored[index] { "=" } else { &line };
            let mut value = json!([index, json_labels(&stream.labels), line]);
            if let Some(categories) = &entry.categories {
                let mut shown = Map::new();
                for (name, labels) in [
                    ("structuredMetadata", &categories.structured_metadata),
                    ("parsed", &categories.parsed),
                ] {
                    if !labels.is_empty() {
                        shown.insert(name.to_owned(), json_labels(labels).into());
                    }
                }
                value.as_array_mut().expect("an array").push(shown.into());
            }
            out.push(value);
        }
    }
    out.sort_by_key(|entry| entry[0].as_u64());
    out
}

fn check(row: &Value, wanted: &Value, stream: &Labels, result: Result<QueryResult, QueryError>) {
    if let Some(error) = wanted["err"].as_str() {
        let message = match result {
            Ok(result) => panic!("{row}: got {result:?}"),
            Err(error) => error.to_string(),
        };
        assert_eq!(format!("400 {message}"), error, "{row}");
        return;
    }
    let entries = entries(row, result.unwrap_or_else(|e| panic!("{row}: {e}")));
    if wanted.get("out").is_some() {
        assert_eq!(json!(entries), wanted["out"], "{row}");
        return;
    }
    let kept: Vec<&Value> = entries.iter().map(|entry| &entry[0]).collect();
    assert_eq!(json!(kept), wanted["keep"], "{row}");
    for entry in &entries {
        assert_eq!(entry[1]["app"].as_str(), stream.get("app"), "{row}");
        let error = entry[1].get("__error__").map(|error| {
            let details = entry[1].get("__error_details__").cloned().unwrap_or_default();
            json!([error, details])
        });
        let wanted = row["errs"].get(entry[0].to_string());
        assert_eq!(error.as_ref(), wanted, "{row}");
    }
}

#[test]
fn pipeline_examples() {
    let (mut checked, mut pending) = (0, 0);
    for line in include_str!("engine/pipelines.jsonl").lines() {
        let row: Value = serde_json::from_str(line).expect("fixture is JSON");
        let stream = match row.get("stream") {
            Some(stream) => Labels::from_pairs(pairs(stream)).expect("valid labels"),
            None => Labels::from_pairs([("app", "t")]).expect("valid labels"),
        };
        let result = run(&row, &stream);
        if matches!(result, Err(QueryError::Plan(PlanError::Unsupported(_)))) {
            pending += 1;
            continue;
        }
        checked += 1;
        check(&row, row.get("fix").unwrap_or(&row), &stream, result);
    }
    assert_eq!((checked, pending), EXAMPLES_CHECKED_AND_PENDING);
}
