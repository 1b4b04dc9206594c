//! The layout of long queries.
//!
//! A node whose flat text fits a line is printed flat. Otherwise it is split, and
//! its parts are indented by two spaces per level. Where a split operation would
//! be read with another precedence, parentheses on lines of their own keep the
//! meaning.

use super::{
    Out, grouping_with, label_filter, line_filter, log, operator, plain, selector, unwrap,
};
use crate::syntax::ast::{
    BinaryOperation, Expr, LabelReplace, LineFilter, LogExpr, LogRange, MetricExpr,
    RangeAggregation, Stage, VectorAggregation,
};
use logsvc_proto::go::duration::{format_go_duration, format_model_duration};
use logsvc_proto::go::quote::write_quoted_bytes;

/// Longest flat text of a node, in bytes.
const MAX_FLAT_LEN_BYTES: usize = 100;

/// Prints a query for reading: on one line when it is short, else split.
#[must_use]
pub fn format(expr: &Expr) -> String {
    let mut out = Out::new();
    match expr {
        Expr::Log(expr) => log_expr(&mut out, expr, 0),
        Expr::Metric(expr) => metric(&mut out, expr, 0),
    }
    out
}

fn indent(out: &mut Out, level: usize) {
    for _ in 0..level {
        out.push_str("  ");
    }
}

fn line(out: &mut Out, level: usize) {
    out.push('\n');
    indent(out, level);
}

/// Appends the flat text if it fits.
fn fits(out: &mut Out, level: usize, flat: &str) -> bool {
    let fits = flat.len() <= MAX_FLAT_LEN_BYTES;
    if fits {
        indent(out, level);
        out.push_str(flat);
    }
    fits
}

fn log_expr(out: &mut Out, expr: &LogExpr, level: usize) {
    let mut flat = Out::new();
    log(&mut flat, expr);
    if fits(out, level, &flat) {
        return;
    }
    indent(out, level);
    selector(out, &expr.selector);
    for item in &expr.stages {
        line(out, level + 1);
        match item {
            Stage::LineFilters(filters) => line_filters(out, filters, level + 1),
            item => super::plain(out, item),
        }
    }
}

/// As many filters on the first line as fit, then one per line.
fn line_filters(out: &mut Out, filters: &[LineFilter], level: usize) {
    let start = out.len();
    let mut is_first_line = true;
    for (i, filter) in filters.iter().enumerate() {
        let mut flat = Out::new();
        line_filter(&mut flat, filter);
        let len = out.len() - start + 1 + flat.len();
        is_first_line &= i == 0 || len <= MAX_FLAT_LEN_BYTES;
        match (i, is_first_line) {
            (0, _) => {}
            (_, true) => out.push(' '),
            (_, false) => line(out, level),
        }
        out.push_str(&flat);
    }
}

fn metric(out: &mut Out, expr: &MetricExpr, level: usize) {
    let mut flat = Out::new();
    super::metric(&mut flat, expr);
    if fits(out, level, &flat) {
        return;
    }
    match expr {
        MetricExpr::Literal(_) | MetricExpr::Vector(_) => {
            indent(out, level);
            out.push_str(&flat);
        }
        MetricExpr::RangeAggregation(node) => range_aggregation(out, node, level),
        MetricExpr::VectorAggregation(node) => vector_aggregation(out, node, level),
        MetricExpr::BinaryOperation(node) => binary_operation(out, node, level),
        MetricExpr::LabelReplace(node) => label_replace(out, node, level),
    }
}

fn range_aggregation(out: &mut Out, node: &RangeAggregation, level: usize) {
    indent(out, level);
    out.push_str(node.function.as_str());
    out.push_str("(\n");
    if let Some(parameter) = node.parameter {
        indent(out, level + 1);
        plain(out, parameter);
        out.push_str(",\n");
    }
    log_range(out, &node.range, level + 1);
    line(out, level);
    out.push(')');
    if let Some(grouping) = &node.grouping {
        out.push(' ');
        grouping_with(out, grouping, ", ");
    }
}

fn log_range(out: &mut Out, range: &LogRange, level: usize) {
    log_expr(out, &range.log, level);
    if let Some(item) = &range.unwrap {
        line(out, level + 1);
        unwrap(out, item);
        for filter in &item.filters {
            line(out, level + 1);
            out.push_str("| ");
            label_filter(out, filter);
        }
    }
    out.push_str(" [");
    out.push_str(&format_model_duration(range.range_ns));
    out.push(']');
    if range.offset_ns != 0 {
        out.push_str(" offset ");
        // Prometheus style has no fractions of a millisecond.
        if range.offset_ns % 1_000_000 == 0 {
            if range.offset_ns < 0 {
                out.push('-');
            }
            out.push_str(&format_model_duration(range.offset_ns.abs()));
        } else {
            out.push_str(&format_go_duration(range.offset_ns));
        }
    }
}

fn vector_aggregation(out: &mut Out, node: &VectorAggregation, level: usize) {
    indent(out, level);
    out.push_str(node.function.as_str());
    if let Some(grouping) = &node.grouping {
        out.push(' ');
        grouping_with(out, grouping, ", ");
    }
    out.push_str("(\n");
    if let Some(parameter) = node.parameter {
        indent(out, level + 1);
        plain(out, parameter);
        out.push_str(",\n");
    }
    metric(out, &node.expr, level + 1);
    line(out, level);
    out.push(')');
}

fn binary_operation(out: &mut Out, node: &BinaryOperation, level: usize) {
    operand(out, node, &node.left, true, level + 1);
    line(out, level);
    operator(out, node, ", ");
    out.push('\n');
    operand(out, node, &node.right, false, level + 1);
}

fn operand(
    out: &mut Out,
    parent: &BinaryOperation,
    child: &MetricExpr,
    is_left: bool,
    level: usize,
) {
    let MetricExpr::BinaryOperation(operation) = child else {
        return metric(out, child, level);
    };
    let mut flat = Out::new();
    super::metric(&mut flat, child);
    if fits(out, level, &flat) {
        return;
    }
    let (outer, inner) = (parent.op.precedence(), operation.op.precedence());
    let binds = inner > outer || (inner == outer && is_left != parent.op.is_right_associative());
    if binds {
        return binary_operation(out, operation, level);
    }
    indent(out, level);
    out.push_str("(\n");
    binary_operation(out, operation, level + 1);
    line(out, level);
    out.push(')');
}

fn label_replace(out: &mut Out, node: &LabelReplace, level: usize) {
    indent(out, level);
    out.push_str("label_replace(\n");
    metric(out, &node.expr, level + 1);
    for text in [&node.dst, &node.replacement, &node.src, &node.regex] {
        out.push(',');
        line(out, level + 1);
        write_quoted_bytes(text, out);
    }
    line(out, level);
    out.push(')');
}
