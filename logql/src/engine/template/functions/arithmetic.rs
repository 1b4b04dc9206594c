//! Arithmetic: `add` and its like on integers, `addf` and its like on decimals.

use super::convert::{to_float, to_int};
use super::decimal::Decimal;
use super::{Function, Param, int};
use crate::engine::template::execution::Execution;
use crate::engine::template::value::Value;

/// How much slower decimal arithmetic is than copying its result.
const WORK_PER_BYTE: usize = 8;

const ANY: &[Param] = &[Param::Any];
const ANY_ANY: &[Param] = &[Param::Any, Param::Any];

pub(super) const FUNCTIONS: &[Function] = &[
    Function::variadic("add", &[], Param::Any, |_, args| {
        let sum = args.iter().fold(0i64, |sum, value| sum.wrapping_add(to_int(value)));
        Ok(Value::Int64(sum))
    }),
    Function::new("sub", ANY_ANY, |_, args| {
        Ok(Value::Int64(to_int(&args[0]).wrapping_sub(to_int(&args[1]))))
    }),
    Function::variadic("mul", ANY, Param::Any, |_, args| {
        let first = to_int(&args[0]);
        let rest = args[1..].iter();
        Ok(Value::Int64(rest.fold(first, |product, value| product.wrapping_mul(to_int(value)))))
    }),
    Function::new("div", ANY_ANY, |_, args| {
        let (dividend, divisor) = (to_int(&args[0]), divisor(&args[1])?);
        Ok(Value::Int64(dividend.wrapping_div(divisor)))
    }),
    Function::new("mod", ANY_ANY, |_, args| {
        let (dividend, divisor) = (to_int(&args[0]), divisor(&args[1])?);
        Ok(Value::Int64(dividend.wrapping_rem(divisor)))
    }),
    Function::variadic("max", ANY, Param::Any, |_, args| {
        Ok(Value::Int64(args.iter().map(to_int).max().unwrap_or(0)))
    }),
    Function::variadic("min", ANY, Param::Any, |_, args| {
        Ok(Value::Int64(args.iter().map(to_int).min().unwrap_or(0)))
    }),
    Function::variadic("addf", &[], Param::Any, |run, args| {
        decimal(run, Decimal::zero(), args, |a, b| Ok(a.plus(b)))
    }),
    Function::variadic("subf", ANY, Param::Any, |run, args| {
        decimal_from_first(run, args, |a, b| Ok(a.plus(&b.negated())))
    }),
    Function::variadic("mulf", ANY, Param::Any, |run, args| {
        decimal_from_first(run, args, |a, b| Ok(a.times(b)))
    }),
    Function::variadic("divf", ANY, Param::Any, |run, args| {
        decimal_from_first(run, args, |a, b| {
            a.divided_by(b).ok_or_else(|| "decimal division by 0".to_owned())
        })
    }),
    Function::variadic("maxf", ANY, Param::Any, |_, args| {
        Ok(Value::Float(args[1..].iter().fold(to_float(&args[0]), |a, b| max(a, to_float(b)))))
    }),
    Function::variadic("minf", ANY, Param::Any, |_, args| {
        Ok(Value::Float(args[1..].iter().fold(to_float(&args[0]), |a, b| min(a, to_float(b)))))
    }),
    Function::new("ceil", ANY, |_, args| Ok(Value::Float(to_float(&args[0]).ceil()))),
    Function::new("floor", ANY, |_, args| Ok(Value::Float(to_float(&args[0]).floor()))),
    Function::variadic("round", &[Param::Any, Param::Int], Param::Float, |_, args| {
        let threshold = args.get(2).map_or(0.5, to_float);
        let power = 10f64.powf(int(args, 1)? as f64);
        let digit = power * to_float(&args[0]);
        // The fraction of a negative number is negative, so that it rounds down.
        let rounded = if digit % 1.0 >= threshold { digit.ceil() } else { digit.floor() };
        Ok(Value::Float(rounded / power))
    }),
];

fn divisor(value: &Value<'_>) -> Result<i64, String> {
    match to_int(value) {
        0 => Err("runtime error: integer divide by zero".to_owned()),
        divisor => Ok(divisor),
    }
}

/// Go's `math.Max`: infinity wins over NaN, NaN over the rest.
fn max(a: f64, b: f64) -> f64 {
    if a == f64::INFINITY || b == f64::INFINITY {
        f64::INFINITY
    } else if a.is_nan() || b.is_nan() {
        f64::NAN
    } else if a == b {
        if a.is_sign_negative() { b } else { a }
    } else {
        a.max(b)
    }
}

/// Go's `math.Min`.
fn min(a: f64, b: f64) -> f64 {
    -max(-a, -b)
}

fn to_decimal(value: &Value<'_>) -> Result<Decimal, String> {
    let number = to_float(value);
    Decimal::from_float(number).ok_or_else(|| {
        format!("Cannot create a Decimal from {}", logsvc_proto::go::float::print_float(number))
    })
}

fn decimal<'v>(
    run: &Execution<'v>,
    first: Decimal,
    rest: &[Value<'_>],
    operation: impl Fn(&Decimal, &Decimal) -> Result<Decimal, String>,
) -> Result<Value<'v>, String> {
    let mut result = first;
    for value in rest {
        result = operation(&result, &to_decimal(value)?)?;
        run.work(result.len_bytes().saturating_mul(WORK_PER_BYTE))?;
    }
    Ok(Value::Float(result.to_float()))
}

fn decimal_from_first<'v>(
    run: &Execution<'v>,
    args: &[Value<'_>],
    operation: impl Fn(&Decimal, &Decimal) -> Result<Decimal, String>,
) -> Result<Value<'v>, String> {
    decimal(run, to_decimal(&args[0])?, &args[1..], operation)
}
