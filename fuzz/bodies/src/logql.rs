//! Queries out of arbitrary bytes.

use logsvc_logql::syntax::ast::{Expr, MetricExpr};
use logsvc_logql::syntax::{self, MAX_QUERY_LEN_BYTES};

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
