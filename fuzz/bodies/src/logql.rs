//! Queries, templates of alerts, leaves of plans, and their results out of arbitrary bytes.

use std::collections::BTreeMap;

use logsvc_logql::engine::testing::{Layout, TestEntry, TestStore};
use logsvc_logql::engine::{
    AlertData, AlertLines, AlertNeed, AlertOutput, AlertTemplate, Direction, LeafPlan, LeafResult,
    MAX_LINES, MAX_QUERIES, MergeState, Place, Plan, QueryParams, SizeOf, StreamLabels,
    decode_matchers, encode_matchers, read_matchers,
};
use logsvc_logql::syntax::ast::{Expr, MetricExpr};
use logsvc_logql::syntax::{self, MAX_QUERY_LEN_BYTES};
use logsvc_proto::Labels;

/// Parses arbitrary bytes. A query that parses is printed in both forms, which must parse to the
/// same tree.
///
/// # Panics
/// When a form parses to another tree, or when an error names one token as both found and expected.
pub fn parse(data: &[u8]) {
    let expr = match syntax::parse_bytes(data) {
        Ok(expr) => expr,
        Err(error) => {
            assert!(!error.message.is_empty());
            assert!(!contradicts_itself(&error.message), "{error}");
            return;
        }
    };
    if let Expr::Metric(metric) = &expr
        && !is_finite(metric)
    {
        // The language can't write such literals.
        return;
    }
    for text in [expr.to_string(), syntax::format(&expr)] {
        if text.len() >= MAX_QUERY_LEN_BYTES {
            continue;
        }
        let again = syntax::parse(&text);
        assert_eq!(again.as_ref(), Ok(&expr), "printed as {text:?}");
    }
}

/// Expands a template of an alert, the bytes before the first NUL, with the text behind it as the
/// value of a label, a line and a number. Needs are met until there is an output. True when there
/// is one.
///
/// # Panics
/// When two executions differ, when a failure does not say where, when the output is too long, or
/// when the template needs too much.
#[must_use]
pub fn alert_template(data: &[u8]) -> bool {
    let (text, value) = match data.iter().position(|byte| *byte == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &b""[..]),
    };
    let (text, value) = (String::from_utf8_lossy(text), String::from_utf8_lossy(value));
    let template = match AlertTemplate::parse("__alert_x", &text) {
        Ok(template) => template,
        Err(error) => {
            assert!(error.starts_with("template: __alert_x:"), "{error}");
            return false;
        }
    };
    let labels = Labels::from_pairs([("app", "a"), ("x", &value)]).expect("the names are valid");
    let number = value.parse().unwrap_or(1.5);
    let mut queries = BTreeMap::new();
    let mut lines: Option<AlertLines> = None;
    // Lines may be asked for with a larger limit each time.
    for _ in 0..=MAX_QUERIES + MAX_LINES {
        let data = AlertData {
            labels: &labels,
            value: number,
            external_labels: &labels,
            external_url: &value,
            time_ns: 1,
            queries: &queries,
            lines: lines.as_ref(),
        };
        let output = template.execute(&data);
        assert_eq!(output, template.execute(&data));
        match output {
            Ok(AlertOutput::Text(text)) => {
                // A byte that is no text becomes three.
                assert!(text.len() <= 3 * (64 << 10), "{} bytes", text.len());
                return true;
            }
            Ok(AlertOutput::Needs(AlertNeed::Query(query))) => {
                let samples = (0..query.len() % 3).map(|n| (labels.clone(), n as f64)).collect();
                let answer = if query.len() % 7 == 6 { Err("no".to_owned()) } else { Ok(samples) };
                assert!(queries.insert(query, answer).is_none(), "an answer is known");
            }
            Ok(AlertOutput::Needs(AlertNeed::Lines { limit })) => {
                assert!(lines.is_none_or(|known| known.limit < limit), "the lines are known");
                lines = Some(AlertLines { limit, lines: Ok(vec![value.to_string(); limit]) });
            }
            Err(error) => {
                assert!(error.starts_with("template: __alert_x"), "{error}");
                return false;
            }
        }
    }
    panic!("the template needs too much");
}

/// True for `unexpected X, expecting X` and the like.
fn contradicts_itself(message: &str) -> bool {
    let unexpected = message.strip_prefix("syntax error: unexpected ");
    let parts = unexpected.and_then(|rest| rest.split_once(", expecting "));
    parts.is_some_and(|(found, wanted)| wanted.split(" or ").any(|one| one == found))
}

fn is_finite(expr: &MetricExpr) -> bool {
    match expr {
        MetricExpr::Literal(value) => value.is_finite(),
        MetricExpr::Vector(_) | MetricExpr::RangeAggregation(_) => true,
        MetricExpr::VectorAggregation(node) => is_finite(&node.expr),
        MetricExpr::BinaryOperation(node) => is_finite(&node.left) && is_finite(&node.right),
        MetricExpr::LabelReplace(node) => is_finite(&node.expr),
    }
}

/// Queries whose leaves have results of all kinds.
const LEAF_QUERIES: [&str; 20] = [
    r#"{app="m"}"#,
    r#"{app="m"} | logfmt | line_format "{{.n}}""#,
    r#"count_over_time({app="m"}[5s])"#,
    r#"sum by (level) (bytes_rate({app="m"} | logfmt [7s]))"#,
    r#"absent_over_time({app="m"}[3s])"#,
    r#"topk(2, count_over_time({app="m"} | logfmt [5s]))"#,
    r#"rate_counter({app="m"} | logfmt | unwrap v | __error__="" [9s])"#,
    r#"quantile_over_time(0.7, {app="m"} | logfmt | unwrap v | __error__="" [9s]) by (level)"#,
    r#"stddev_over_time({app="m"} | logfmt | unwrap v | __error__="" [4s]) by (level)"#,
    r#"stdvar_over_time({app="m"} | logfmt | unwrap v | __error__="" [9s]) by (s)"#,
    r#"min_over_time({app="m"} | logfmt | unwrap v | __error__="" [9s]) by (level)"#,
    r#"max_over_time({app="m"} | logfmt | unwrap v | __error__="" [2s]) by (level)"#,
    r#"first_over_time({app="m"} | logfmt | unwrap v | __error__="" [9s]) by (level)"#,
    r#"last_over_time({app="m"} | logfmt | unwrap v | __error__="" [9s]) by (s)"#,
    r#"sum_over_time({app="m"} | logfmt | unwrap v | __error__="" [9s])"#,
    r#"avg_over_time({app="m"} | logfmt | unwrap v | __error__="" [8s]) by (level)"#,
    r#"rate({app="m"} | logfmt | unwrap v | __error__="" [9s] offset 2s)"#,
    r#"absent_over_time({app="m"} | logfmt | unwrap v | __error__="" [2s])"#,
    r#"sum_over_time({app="m"} | logfmt | unwrap v [9s])"#,
    r#"bottomk(1, sum by (s) (rate({app="m"}[5s]))) / 2"#,
];

/// Plans whose first leaves have results of all kinds, over the first 40 seconds. Log queries are
/// there in both directions, with places, as a further page, and thinned.
///
/// # Panics
/// When one of the plans is none.
#[must_use]
pub fn leaf_plans() -> Vec<Plan> {
    const SECOND_NS: i64 = 1_000_000_000;
    let range = QueryParams::range(0, 40 * SECOND_NS, 3 * SECOND_NS);
    let place =
        Place { timestamp_ns: 20 * SECOND_NS, stream_hash: 1 << 63, entry_hash: 5, ordinal: 1 };
    let mut plans = Vec::new();
    for query in LEAF_QUERIES {
        let expr = syntax::parse(query).expect("a query");
        let of = |params: &QueryParams| Plan::new(&expr, params).expect("a plan");
        plans.push(of(&range));
        if matches!(expr, Expr::Log(_)) {
            plans.push(of(&QueryParams {
                direction: Direction::Forward,
                categorize_labels: true,
                places: true,
                limit: 30,
                ..range.clone()
            }));
            plans.push(of(&QueryParams { after: Some(place), ..range.clone() }));
            plans.push(of(&QueryParams { interval_ns: SECOND_NS / 2, ..range.clone() }));
        } else {
            plans.push(of(&QueryParams::instant(20 * SECOND_NS)));
        }
    }
    let selector = syntax::parse_selector(r#"{app="m"}"#).expect("a selector");
    let bounds_ns = (0, 40 * SECOND_NS);
    plans.push(Plan::patterns(&selector, bounds_ns, 10 * SECOND_NS).expect("a plan"));
    let (by, size) = (StreamLabels::All, SizeOf::Entry);
    let volume = Plan::volume(&selector, by, bounds_ns, Some(7 * SECOND_NS), size);
    plans.push(volume.expect("a plan"));
    plans
}

/// Reads the result of a leaf: that of the plan that the first byte numbers. What is read has one
/// encoding, the bytes, and is merged with itself. True when something was read.
///
/// # Panics
/// When it has another encoding.
#[must_use]
pub fn leaf_result(data: &[u8]) -> bool {
    let Some((number, bytes)) = data.split_first() else { return false };
    let plans = leaf_plans();
    let plan = &plans[usize::from(*number) % plans.len()];
    leaf_result_of(plan, bytes)
}

/// The same for the first leaf of a plan.
///
/// # Panics
/// As for [`leaf_result`].
#[must_use]
pub fn leaf_result_of(plan: &Plan, bytes: &[u8]) -> bool {
    let Ok(result) = LeafResult::decode(bytes, &plan.leaves()[0]) else { return false };
    let mut again = Vec::new();
    result.encode(&mut again);
    assert_eq!(again, bytes, "another encoding");
    for copies in [1, 2] {
        let mut merge = MergeState::new(plan);
        (0..copies).for_each(|_| merge.add(result.clone()));
        let _ = merge.finish();
    }
    true
}

/// Reads a leaf, and runs it over a few entries. What is read has one encoding, the bytes, and its
/// result is one that the leaf can have. True when something was read.
///
/// # Panics
/// When it has another encoding, cannot be compiled, or has an impossible result.
#[must_use]
pub fn leaf_plan(data: &[u8]) -> bool {
    let is_framed = LeafPlan::read_estimate(data).is_ok();
    let Ok(leaf) = LeafPlan::decode(data) else { return false };
    assert!(is_framed, "read without an estimate");
    let mut again = Vec::new();
    leaf.encode(&mut again);
    assert_eq!(again, data, "another encoding");
    let mut store = TestStore::new();
    for (stream, second) in [("1", 1), ("2", 1), ("1", 12), ("2", 30)] {
        let labels =
            Labels::from_pairs([("app", "m"), ("s", stream)]).expect("the names are valid");
        let metadata = vec![("level".to_owned(), "warn".to_owned())];
        let line = format!("level=info n={second} v={second}.5").into();
        store.push(&labels, TestEntry { timestamp_ns: second * 1_000_000_000, line, metadata });
    }
    for result in store.run_leaf_on_all(&leaf, &Layout::default()).expect("it was compiled") {
        let mut bytes = Vec::new();
        result.encode(&mut bytes);
        assert!(LeafResult::decode(&bytes, &leaf).is_ok(), "an impossible result");
    }
    true
}

/// Reads the matchers of a look-up. What is read has one encoding, the bytes. True when something
/// was read.
///
/// # Panics
/// When it has another encoding.
#[must_use]
pub fn matchers(data: &[u8]) -> bool {
    let is_framed = read_matchers(data).is_ok();
    let Ok(groups) = decode_matchers(data) else { return false };
    assert!(is_framed, "read as a whole alone");
    let mut again = Vec::new();
    encode_matchers(&groups, &mut again);
    assert_eq!(again, data, "another encoding");
    for matcher in groups.iter().flatten() {
        let _ = (matcher.matches(""), matcher.matches("m"), matcher.pattern_literals());
    }
    true
}
