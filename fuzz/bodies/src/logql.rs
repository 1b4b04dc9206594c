//! Queries and templates of alerts out of arbitrary bytes.

use std::collections::BTreeMap;

use logsvc_logql::engine::{
    AlertData, AlertLines, AlertNeed, AlertOutput, AlertTemplate, MAX_LINES, MAX_QUERIES,
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
