//! Comparisons of Go's template engine: kinds must agree, exact types need not.

use std::cmp::Ordering;

use super::{Function, Param};
use crate::engine::template::value::{BasicKind, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("eq", &[Param::Reflect], Param::Reflect, |_, args| {
        if args.len() < 2 {
            return Err("missing argument for comparison".to_owned());
        }
        for other in &args[1..] {
            if equal(&args[0], other)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
    Function::new("ne", &[Param::Reflect, Param::Reflect], |_, args| {
        Ok(Value::Bool(!equal(&args[0], &args[1])?))
    }),
    Function::new("lt", &[Param::Reflect, Param::Reflect], |_, args| {
        less(&args[0], &args[1]).map(Value::Bool)
    }),
    Function::new("le", &[Param::Reflect, Param::Reflect], |_, args| {
        less_or_equal(&args[0], &args[1]).map(Value::Bool)
    }),
    // The negations differ from the operators for NaN, as they do in Go.
    Function::new("gt", &[Param::Reflect, Param::Reflect], |_, args| {
        less_or_equal(&args[0], &args[1]).map(|is| Value::Bool(!is))
    }),
    Function::new("ge", &[Param::Reflect, Param::Reflect], |_, args| {
        less(&args[0], &args[1]).map(|is| Value::Bool(!is))
    }),
];

/// The order of two values of one kind; `None` for NaN, for complex numbers that differ,
/// and for other kinds.
fn order(a: &Value<'_>, b: &Value<'_>) -> Option<Ordering> {
    match (a, b) {
        (Value::Float(a), Value::Float(b)) => a.partial_cmp(b),
        (Value::Complex(a, ai), Value::Complex(b, bi)) => {
            ((a, ai) == (b, bi)).then_some(Ordering::Equal)
        }
        (Value::Text(a), Value::Text(b)) => Some(a.bytes().cmp(b.bytes())),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        _ => Some(a.as_int()?.cmp(&b.as_int()?)),
    }
}

/// Kinds that can be compared; integers can whether they have a sign or not.
fn agree(a: Option<BasicKind>, b: Option<BasicKind>) -> bool {
    let is_integer = |kind| matches!(kind, Some(BasicKind::Int | BasicKind::Uint));
    a == b || (is_integer(a) && is_integer(b))
}

fn incompatible(a: &Value<'_>, b: &Value<'_>) -> String {
    format!("incompatible types for comparison: {} and {}", a.type_name(), b.type_name())
}

fn equal(a: &Value<'_>, b: &Value<'_>) -> Result<bool, String> {
    let (kind_a, kind_b) = (a.basic_kind(), b.basic_kind());
    if !agree(kind_a, kind_b) {
        let both_are_values = !matches!(a, Value::Nothing) && !matches!(b, Value::Nothing);
        return if both_are_values { Err(incompatible(a, b)) } else { Ok(false) };
    }
    if kind_a.is_some() {
        return Ok(order(a, b) == Some(Ordering::Equal));
    }
    match (a, b) {
        (Value::Nothing, other) | (other, Value::Nothing) => Ok(matches!(other, Value::Nothing)),
        (Value::Time(a), Value::Time(b)) => Ok(a == b),
        (a, b) => Err(format!("non-comparable types {}: {}", a.type_name(), b.type_name())),
    }
}

fn less(a: &Value<'_>, b: &Value<'_>) -> Result<bool, String> {
    let invalid = || "invalid type for comparison".to_owned();
    let kind_a = a.basic_kind().ok_or_else(invalid)?;
    let kind_b = b.basic_kind().ok_or_else(invalid)?;
    if !agree(Some(kind_a), Some(kind_b)) {
        return Err(incompatible(a, b));
    }
    if matches!(kind_a, BasicKind::Bool | BasicKind::Complex) {
        return Err(invalid());
    }
    Ok(order(a, b) == Some(Ordering::Less))
}

fn less_or_equal(a: &Value<'_>, b: &Value<'_>) -> Result<bool, String> {
    Ok(less(a, b)? || equal(a, b)?)
}
