//! Rules that a well-formed text must also obey.

use super::ast::{
    BinaryOp, Expr, Grouping, LabelReplace, LogExpr, MetricExpr, RangeFunction, VectorFunction,
};
use super::{ParseError, ast};
use logsvc_proto::go::float::{parse_float, print_float};

/// The parameter of a range aggregation, after checking parameter, grouping and
/// unwrapping, in this order.
pub(super) fn range_aggregation(
    function: RangeFunction,
    parameter: Option<&str>,
    has_unwrap: bool,
    has_grouping: bool,
) -> Result<Option<f64>, ParseError> {
    let name = function.as_str();
    let parameter = match (function, parameter) {
        (RangeFunction::QuantileOverTime, None) => {
            return fail(format!("parameter required for operation {name}"));
        }
        (RangeFunction::QuantileOverTime, Some(text)) => match parse_float(text) {
            Ok(value) => Some(value),
            Err(error) => {
                return fail(format!("invalid parameter for operation {name}: {error}"));
            }
        },
        (_, Some(text)) => {
            return fail(format!("parameter {text} not supported for operation {name}"));
        }
        (_, None) => None,
    };
    if has_grouping && !function.allows_grouping() {
        return fail(format!("grouping not allowed for {name} aggregation"));
    }
    if has_unwrap && !function.allows_unwrap() {
        return fail(format!("invalid aggregation {name} with unwrap"));
    }
    if !has_unwrap && !function.allows_entries() {
        return fail(format!("invalid aggregation {name} without unwrap"));
    }
    Ok(parameter)
}

/// The parameter of a vector aggregation, after checking it and the grouping.
pub(super) fn vector_parameter(
    function: VectorFunction,
    parameter: Option<&str>,
    grouping: Option<&Grouping>,
) -> Result<Option<u64>, ParseError> {
    let name = function.as_str();
    if !function.takes_parameter() {
        return match parameter {
            Some(text) => fail(format!("unsupported parameter for operation {name}({text},")),
            None => Ok(None),
        };
    }
    let Some(text) = parameter else {
        return fail(format!("parameter required for operation {name}"));
    };
    let Ok(value) = text.parse::<i64>() else {
        return fail(format!("invalid parameter {name}({text},"));
    };
    if value <= 0 {
        return fail(format!("invalid parameter (must be greater than 0) {name}({text}"));
    }
    if function == VectorFunction::ApproxTopk && grouping.is_some() {
        return fail(format!("grouping not allowed for {name} aggregation"));
    }
    Ok(Some(value.unsigned_abs()))
}

/// Both operands must yield samples, and sets can't be combined with literals.
pub(super) fn binary_operands(op: BinaryOp, left: &Expr, right: &Expr) -> Result<(), ParseError> {
    let name = op.as_str();
    for (side, operand) in [("left", left), ("right", right)] {
        if let Expr::Log(log) = operand {
            let kind = reference_type(log);
            return fail(format!(
                "unexpected type for {side} leg of binary operation ({name}): *syntax.{kind}"
            ));
        }
    }
    if !op.is_set_operation() {
        return Ok(());
    }
    for (side, operand) in [("left", left), ("right", right)] {
        if let Expr::Metric(MetricExpr::Literal(value)) = operand {
            let value = fixed_point(*value);
            return fail(format!(
                "unexpected literal for {side} leg of logical/set binary operation ({name}): {value}"
            ));
        }
    }
    Ok(())
}

/// Loki's name for the kind of a log query in its messages.
fn reference_type(log: &LogExpr) -> &'static str {
    if log.stages.is_empty() { "MatchersExpr" } else { "PipelineExpr" }
}

/// Go's `%f`: six digits behind the point.
fn fixed_point(value: f64) -> String {
    if value.is_finite() { format!("{value:.6}") } else { print_float(value) }
}

/// The value of an operation on two literals. Division by zero gives NaN, never
/// an infinity.
pub(super) fn fold(op: BinaryOp, left: f64, right: f64) -> f64 {
    let truth = |holds: bool| if holds { 1.0 } else { 0.0 };
    match op {
        // The checks refuse literals here.
        BinaryOp::Or | BinaryOp::And | BinaryOp::Unless => f64::NAN,
        BinaryOp::Equal => truth(left == right),
        BinaryOp::NotEqual => truth(left != right),
        BinaryOp::Greater => truth(left > right),
        BinaryOp::GreaterOrEqual => truth(left >= right),
        BinaryOp::Less => truth(left < right),
        BinaryOp::LessOrEqual => truth(left <= right),
        BinaryOp::Add => left + right,
        BinaryOp::Sub => left - right,
        BinaryOp::Mul => left * right,
        BinaryOp::Div | BinaryOp::Mod if right == 0.0 => f64::NAN,
        BinaryOp::Div => left / right,
        BinaryOp::Mod => left % right,
        BinaryOp::Pow => left.powf(right),
    }
}

/// The names of the groups of a `regexp` stage.
pub(super) fn check_group_names(names: &[Option<String>]) -> Result<(), ParseError> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names.iter().flatten() {
        if name.starts_with(|c: char| c.is_ascii_digit()) {
            return fail(format!("invalid extracted label name '{name}'"));
        }
        if !seen.insert(name) {
            return fail(format!("duplicate extracted label name '{name}'"));
        }
    }
    if seen.is_empty() {
        return fail("at least one named capture must be supplied".to_owned());
    }
    Ok(())
}

/// `sort` and `sort_desc` order all samples, so they take no labels.
pub(super) fn check_sort_grouping(expr: &Expr) -> Result<(), ParseError> {
    let Expr::Metric(expr) = expr else { return Ok(()) };
    let mut result = Ok(());
    visit(expr, &mut |expr| {
        if let MetricExpr::VectorAggregation(aggregation) = expr
            && matches!(aggregation.function, VectorFunction::Sort | VectorFunction::SortDesc)
            && aggregation.grouping.as_ref().is_some_and(|g| !g.labels.is_empty())
        {
            result = fail("sort and sort_desc doesn't allow grouping by ".to_owned());
        }
    });
    result
}

pub(super) fn not_selective() -> ParseError {
    ParseError::new(
        "queries require at least one regexp or equality matcher that does not have an \
         empty-compatible value. For instance, app=~\".*\" does not meet this requirement, but \
         app=~\".+\" will",
    )
}

/// An aggregation over a bare literal, like `sum(1)`, can be printed but not
/// executed: it selects nothing.
///
/// # Errors
/// The same message as for a selector that matches everything.
pub fn check_executable(expr: &Expr) -> Result<(), ParseError> {
    let Expr::Metric(expr) = expr else { return Ok(()) };
    let mut result = Ok(());
    visit(expr, &mut |expr| {
        let argument = match expr {
            MetricExpr::VectorAggregation(ast::VectorAggregation { expr, .. })
            | MetricExpr::LabelReplace(LabelReplace { expr, .. }) => expr,
            _ => return,
        };
        if matches!(**argument, MetricExpr::Literal(_)) {
            result = Err(not_selective());
        }
    });
    result
}

/// Calls `f` for every node of the tree. The depth of trees is bounded.
fn visit(expr: &MetricExpr, f: &mut impl FnMut(&MetricExpr)) {
    f(expr);
    match expr {
        MetricExpr::Literal(_) | MetricExpr::Vector(_) | MetricExpr::RangeAggregation(_) => {}
        MetricExpr::VectorAggregation(aggregation) => visit(&aggregation.expr, f),
        MetricExpr::BinaryOperation(operation) => {
            visit(&operation.left, f);
            visit(&operation.right, f);
        }
        MetricExpr::LabelReplace(replace) => visit(&replace.expr, f),
    }
}

fn fail<T>(message: String) -> Result<T, ParseError> {
    Err(ParseError::new(message))
}
