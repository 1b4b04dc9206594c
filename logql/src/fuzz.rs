//! For tests: entry points that take arbitrary bytes. The fuzz targets call
//! these, and so does an ordinary test.

use logsvc_proto::Labels;

use crate::engine::labels::EntryLabels;
use crate::engine::template::{Input, Template};
use crate::syntax::ast::{Expr, MetricExpr};
use crate::syntax::{self, MAX_QUERY_LEN_BYTES};

/// Parses arbitrary bytes. What parses is printed in both forms, which must parse
/// to the same tree.
///
/// # Panics
/// When they do not, or when an error names the found token as an expected one.
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

/// Executes a template, the bytes before the first NUL, over an entry whose line
/// and labels are the bytes behind it. True when the template has an output.
///
/// # Panics
/// When it gives two outputs, or fails without saying where.
#[must_use]
pub fn template(data: &[u8]) -> bool {
    let (template, value) = match data.iter().position(|b| *b == 0) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &b""[..]),
    };
    let mut labels = EntryLabels::new();
    let compiled = match Template::compile("line", template, &mut labels) {
        Ok(compiled) => compiled,
        Err(error) => {
            assert!(error.starts_with("template: line:"), "{error}");
            return false;
        }
    };
    let stream = Labels::from_pairs([("app", "a"), ("n", "12")]).expect("the names are valid");
    let base = labels.base(&stream);
    labels.start(&base);
    let name = labels.name_id(b"x");
    labels.set(name, value);
    let execute = || {
        let mut out = Vec::new();
        let input = Input { labels: &labels, line: value, timestamp_ns: 1, now_ns: 2 };
        compiled.execute(input, &mut out).map(|()| out)
    };
    let output = execute();
    assert_eq!(output, execute());
    match output {
        Ok(_) => true,
        Err(error) => {
            assert!(error.starts_with("template: line"), "{error}");
            false
        }
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
