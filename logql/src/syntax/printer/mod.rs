//! Syntax tree back to text: the flat canonical form, which is the `Display` of
//! every node, and [`format`], which breaks long queries into lines.
//!
//! The printed text parses to the same tree again, except for literals that are
//! not finite (`NaN`, `+Inf`), which the language cannot write. The layout follows Loki. Where
//! Loki's printer loses information (byte sizes, `vector()` arguments, `or` operands, empty label
//! lists, precedence), this printer keeps it.

mod pipeline;
mod pretty;
mod regex_style;

pub(crate) use pipeline::print_pipeline;
pub use pretty::format;

use std::fmt::{self, Write};

use super::ast::{
    BinaryOperation, Cardinality, CompareOp, Expr, Grouping, GroupingKind, LabelFilter,
    LabelReplace, LineFilter, LineOperand, LogExpr, LogRange, MatchOp, Matcher, MatchingKind,
    MetricExpr, RangeAggregation, Selector, Text, Unwrap, UnwrapConversion, VectorAggregation,
    VectorMatching,
};
use logsvc_proto::go::duration::{format_go_duration, format_model_duration};
use logsvc_proto::go::float::print_float;
use logsvc_proto::go::quote::{quoted_bytes, write_quoted_bytes};
use logsvc_proto::go::size::write_query_bytes;

/// Text that is being built. Writing to it succeeds always.
type Out = String;

macro_rules! display {
    ($($node:ty => $write:path;)*) => {
        $(impl fmt::Display for $node {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut out = Out::new();
                $write(&mut out, self);
                f.write_str(&out)
            }
        })*
    };
}

display! {
    Expr => expr;
    LogExpr => log;
    Selector => selector;
    Matcher => matcher;
    LineFilter => line_filter;
    LabelFilter => label_filter;
    MetricExpr => metric;
    Grouping => grouping;
}

/// The string as the language writes it, in double quotes.
impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&quoted_bytes(self))
    }
}

fn separated<T>(out: &mut Out, items: &[T], separator: &str, write: impl Fn(&mut Out, &T)) {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(separator);
        }
        write(out, item);
    }
}

fn plain(out: &mut Out, value: impl fmt::Display) {
    write!(out, "{value}").expect("writing to a String succeeds");
}

fn expr(out: &mut Out, expr: &Expr) {
    match expr {
        Expr::Log(expr) => log(out, expr),
        Expr::Metric(expr) => metric(out, expr),
    }
}

fn log(out: &mut Out, log: &LogExpr) {
    selector(out, &log.selector);
    for item in &log.stages {
        out.push(' ');
        plain(out, item);
    }
}

fn selector(out: &mut Out, selector: &Selector) {
    out.push('{');
    separated(out, &selector.matchers, ", ", matcher);
    out.push('}');
}

fn matcher(out: &mut Out, matcher: &Matcher) {
    out.push_str(&matcher.name);
    out.push_str(matcher.op.as_str());
    write_quoted_bytes(&matcher.value, out);
}

fn line_filter(out: &mut Out, filter: &LineFilter) {
    out.push_str(filter.op.as_str());
    out.push(' ');
    separated(out, &filter.operands, " or ", |out, operand| match operand {
        LineOperand::Text(text) => write_quoted_bytes(text, out),
        LineOperand::Ip(pattern) => ip(out, pattern),
    });
}

fn ip(out: &mut Out, pattern: &Text) {
    out.push_str("ip(");
    write_quoted_bytes(pattern, out);
    out.push(')');
}

fn label_filter(out: &mut Out, filter: &LabelFilter) {
    label_filter_with(out, filter, plain);
}

/// The filter, with its plain numbers as `number` writes them.
fn label_filter_with(out: &mut Out, filter: &LabelFilter, number: fn(&mut Out, f64)) {
    let compare = |out: &mut Out, name: &str, op: CompareOp| {
        out.push_str(name);
        out.push_str(op.as_str());
    };
    let pair = |out: &mut Out, left, separator: &str, right| {
        out.push_str("( ");
        label_filter_with(out, left, number);
        out.push_str(separator);
        label_filter_with(out, right, number);
        out.push_str(" )");
    };
    match filter {
        LabelFilter::String(item)
            if matches!(item.op, MatchOp::Regex | MatchOp::NotRegex)
                && regex_style::prefers_raw_string(&item.value) =>
        {
            out.push_str(&item.name);
            out.push_str(item.op.as_str());
            out.push('`');
            out.push_str(&item.value.to_string_lossy());
            out.push('`');
        }
        LabelFilter::String(item) => matcher(out, item),
        LabelFilter::Number { name, op, value } => {
            compare(out, name, *op);
            number(out, *value);
        }
        LabelFilter::Duration { name, op, value_ns } => {
            compare(out, name, *op);
            out.push_str(&format_go_duration(*value_ns));
        }
        LabelFilter::Bytes { name, op, value_bytes } => {
            compare(out, name, *op);
            write_query_bytes(out, *value_bytes);
        }
        LabelFilter::Ip { name, negated, pattern } => {
            out.push_str(name);
            out.push_str(if *negated { "!=" } else { "=" });
            ip(out, pattern);
        }
        LabelFilter::And(left, right) => pair(out, left, " , ", right),
        LabelFilter::Or(left, right) => pair(out, left, " or ", right),
    }
}

fn metric(out: &mut Out, expr: &MetricExpr) {
    match expr {
        MetricExpr::Literal(value) => out.push_str(&print_float(*value)),
        MetricExpr::Vector(value) => vector(out, *value),
        MetricExpr::RangeAggregation(node) => range_aggregation(out, node),
        MetricExpr::VectorAggregation(node) => vector_aggregation(out, node),
        MetricExpr::BinaryOperation(node) => binary_operation(out, node),
        MetricExpr::LabelReplace(node) => label_replace(out, node),
    }
}

/// Six decimals where that is exact, else as many as it takes.
fn vector(out: &mut Out, value: f64) {
    out.push_str("vector(");
    let text = format!("{value:.6}");
    if text.parse() == Ok(value) {
        out.push_str(&text);
    } else {
        plain(out, value);
    }
    out.push(')');
}

fn range_aggregation(out: &mut Out, node: &RangeAggregation) {
    out.push_str(node.function.as_str());
    out.push('(');
    if let Some(parameter) = node.parameter {
        plain(out, parameter);
        out.push(',');
    }
    log_range(out, &node.range);
    out.push(')');
    if let Some(item) = &node.grouping {
        out.push(' ');
        grouping(out, item);
    }
}

fn log_range(out: &mut Out, range: &LogRange) {
    log(out, &range.log);
    if let Some(item) = &range.unwrap {
        out.push(' ');
        unwrap(out, item);
        for filter in &item.filters {
            out.push_str(" | ");
            label_filter(out, filter);
        }
    }
    out.push('[');
    out.push_str(&format_model_duration(range.range_ns));
    out.push(']');
    if range.offset_ns != 0 {
        out.push_str(" offset ");
        out.push_str(&format_go_duration(range.offset_ns));
    }
}

/// The `unwrap` itself, without the filters behind it.
fn unwrap(out: &mut Out, unwrap: &Unwrap) {
    out.push_str("| unwrap ");
    match unwrap.conversion {
        UnwrapConversion::Number => out.push_str(&unwrap.label),
        conversion => {
            out.push_str(conversion.as_str().unwrap_or_default());
            out.push('(');
            out.push_str(&unwrap.label);
            out.push(')');
        }
    }
}

fn grouping(out: &mut Out, grouping: &Grouping) {
    grouping_with(out, grouping, ",");
}

fn grouping_with(out: &mut Out, grouping: &Grouping, separator: &str) {
    out.push_str(match grouping.kind {
        GroupingKind::By => "by ",
        GroupingKind::Without => "without ",
    });
    names(out, &grouping.labels, separator);
}

fn names(out: &mut Out, labels: &[String], separator: &str) {
    out.push('(');
    separated(out, labels, separator, |out, label| out.push_str(label));
    out.push(')');
}

fn vector_aggregation(out: &mut Out, node: &VectorAggregation) {
    out.push_str(node.function.as_str());
    if let Some(item) = &node.grouping {
        out.push(' ');
        grouping(out, item);
    }
    out.push('(');
    if let Some(parameter) = node.parameter {
        plain(out, parameter);
        out.push(',');
    }
    metric(out, &node.expr);
    out.push(')');
}

fn binary_operation(out: &mut Out, node: &BinaryOperation) {
    out.push('(');
    metric(out, &node.left);
    out.push(' ');
    operator(out, node, ",");
    out.push(' ');
    metric(out, &node.right);
    out.push(')');
}

/// The operator with its modifiers. Without group modifier a label list is
/// followed by a space.
fn operator(out: &mut Out, node: &BinaryOperation, separator: &str) {
    out.push_str(node.op.as_str());
    if node.return_bool {
        out.push_str(" bool");
    }
    if node.matching == VectorMatching::default() {
        return;
    }
    out.push_str(match node.matching.kind {
        MatchingKind::On => " on ",
        MatchingKind::Ignoring => " ignoring ",
    });
    names(out, &node.matching.labels, separator);
    out.push(' ');
    let labels = match &node.matching.cardinality {
        Cardinality::OneToOne => return,
        Cardinality::GroupLeft(labels) => {
            out.push_str("group_left");
            labels
        }
        Cardinality::GroupRight(labels) => {
            out.push_str("group_right");
            labels
        }
    };
    // A parenthesis that follows would be read as the label list.
    if !labels.is_empty() || matches!(*node.right, MetricExpr::BinaryOperation(_)) {
        out.push(' ');
        names(out, labels, separator);
    }
}

fn label_replace(out: &mut Out, node: &LabelReplace) {
    out.push_str("label_replace(");
    metric(out, &node.expr);
    for text in [&node.dst, &node.replacement, &node.src, &node.regex] {
        out.push(',');
        write_quoted_bytes(text, out);
    }
    out.push(')');
}
