//! Numbers, durations and times for people.

use logsvc_proto::go::duration::parse_model_duration_ns;
use logsvc_proto::go::float::{format_float, parse_float, print_float};

use super::super::{Function, Param, text};
use crate::engine::template::execution::Execution;
use crate::engine::template::time::Time;
use crate::engine::template::value::Value;

const ANY: &[Param] = &[Param::Any];
const NANOS_PER_SECOND: f64 = 1e9;

/// Prefixes of numbers from 1 on, of numbers below 1, and of powers of 1024.
const LARGE: [&str; 8] = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
const SMALL: [&str; 8] = ["m", "u", "n", "p", "f", "a", "z", "y"];
const BINARY: [&str; 8] = ["ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"];

pub(in super::super) const FUNCTIONS: &[Function] = &[
    Function::new("humanize", ANY, |_, args| to_float(&args[0]).map(humanize).map(Value::text)),
    Function::new("humanize1024", ANY, |_, args| {
        to_float(&args[0]).map(humanize_1024).map(Value::text)
    }),
    Function::new("humanizeDuration", ANY, |_, args| {
        to_float(&args[0]).map(humanize_duration).map(Value::text)
    }),
    Function::new("humanizePercentage", ANY, |_, args| {
        let value = to_float(&args[0])?;
        Ok(Value::text(format!("{}%", four_digits(value * 100.0))))
    }),
    Function::new("humanizeTimestamp", ANY, |run, args| {
        let value = to_float(&args[0])?;
        if !value.is_finite() {
            return Ok(Value::text(four_digits(value)));
        }
        let time = to_time(value)?;
        run.build(|out| time.write_string(out)).map(Value::text)
    }),
    Function::new("toTime", ANY, |_, args| {
        let value = to_float(&args[0])?;
        if !value.is_finite() {
            return Err("value is NaN or Inf".to_owned());
        }
        to_time(value).map(Value::Time)
    }),
    Function::new("toDuration", ANY, |_, args| to_duration(to_float(&args[0])?)),
    // Seconds since 1970, to the millisecond.
    Function::new("now", &[], |run, _| {
        Ok(Value::Float(run.input.now_ns.div_euclid(1_000_000) as f64 / 1000.0))
    }),
    Function::new("parseDuration", &[Param::Text], parse_duration),
];

/// Go's `%.4g`.
fn four_digits(value: f64) -> String {
    format_float(value, 'g', Some(4))
}

fn to_float(value: &Value<'_>) -> Result<f64, String> {
    match value {
        Value::Float(value) => Ok(*value),
        Value::Int(value) | Value::Int64(value) => Ok(*value as f64),
        Value::Duration(duration_ns) => Ok(*duration_ns as f64 / NANOS_PER_SECOND),
        Value::Text(text) => parse_float(&String::from_utf8_lossy(text.bytes())),
        other => Err(format!("can't convert {} to float", other.type_name())),
    }
}

fn humanize(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return four_digits(value);
    }
    let (value, prefix) =
        if value.abs() >= 1.0 { divided(value, 1000.0, &LARGE) } else { multiplied(value) };
    format!("{}{prefix}", four_digits(value))
}

fn humanize_1024(value: f64) -> String {
    if value.abs() <= 1.0 || !value.is_finite() {
        return four_digits(value);
    }
    let (value, prefix) = divided(value, 1024.0, &BINARY);
    format!("{}{prefix}", four_digits(value))
}

/// The number in the largest unit in which it is at least 1.
fn divided(mut value: f64, by: f64, prefixes: &[&'static str]) -> (f64, &'static str) {
    let mut last = "";
    for &prefix in prefixes {
        if value.abs() < by {
            break;
        }
        last = prefix;
        value /= by;
    }
    (value, last)
}

/// A number below 1 in the largest unit in which it is at least 1.
fn multiplied(mut value: f64) -> (f64, &'static str) {
    let mut last = "";
    for prefix in SMALL {
        if value.abs() >= 1.0 {
            break;
        }
        last = prefix;
        value *= 1000.0;
    }
    (value, last)
}

fn humanize_duration(seconds: f64) -> String {
    if !seconds.is_finite() {
        return four_digits(seconds);
    }
    if seconds == 0.0 {
        return format!("{}s", four_digits(seconds));
    }
    if seconds.abs() < 1.0 {
        let (value, prefix) = multiplied(seconds);
        return format!("{}{prefix}s", four_digits(value));
    }
    let sign = if seconds < 0.0 { "-" } else { "" };
    let seconds = seconds.abs();
    let whole = seconds as i64;
    let (s, m) = (whole % 60, whole / 60 % 60);
    let (h, d) = (whole / 3600 % 24, whole / 86_400);
    if d != 0 {
        format!("{sign}{d}d {h}h {m}m {s}s")
    } else if h != 0 {
        format!("{sign}{h}h {m}m {s}s")
    } else if m != 0 {
        format!("{sign}{m}m {s}s")
    } else {
        format!("{sign}{}s", four_digits(seconds))
    }
}

/// A finite number of seconds since 1970, to the millisecond.
fn to_time(seconds: f64) -> Result<Time, String> {
    let unix_ns = seconds * NANOS_PER_SECOND;
    // The largest 64-bit integer rounds up to a float that is no such integer.
    if !(i64::MIN as f64..i64::MAX as f64).contains(&unix_ns) {
        let shown = print_float(seconds);
        return Err(format!(
            "{shown} cannot be represented as a nanoseconds timestamp since it overflows int64"
        ));
    }
    Ok(Time::from_unix_parts(unix_ns as i64 / 1_000_000, 1_000))
}

/// A number of seconds as a duration, without parts of a nanosecond. Go wraps where there is none.
fn to_duration<'v>(seconds: f64) -> Result<Value<'v>, String> {
    let duration_ns = seconds * NANOS_PER_SECOND;
    if !(i64::MIN as f64..i64::MAX as f64).contains(&duration_ns) {
        let shown = print_float(seconds);
        return Err(format!("{shown} cannot be represented as a duration"));
    }
    Ok(Value::Duration(duration_ns as i64))
}

fn parse_duration<'v>(_: &Execution<'v>, args: &mut [Value<'v>]) -> Result<Value<'v>, String> {
    let value = text(args, 0)?;
    let duration_ns = parse_model_duration_ns(&String::from_utf8_lossy(value.bytes()))
        .map_err(|error| error.to_string())?;
    Ok(Value::Float(duration_ns as f64 / NANOS_PER_SECOND))
}
