//! Values of structured settings, read from JSON by hand.
//!
//! Guarantee: an error names the key of the value, and never has the value of a key that could be
//! a secret: errors say what a value must be.

use std::time::Duration;

use logsvc_proto::time::{parse_go_duration_ns, parse_model_duration_ns};
use serde_json::{Map, Value};

use crate::config::nearest::nearest;

/// A section.
pub(in crate::config) fn section(value: &Value) -> Result<&Map<String, Value>, String> {
    value.as_object().ok_or_else(|| "must be a section".to_owned())
}

/// A list.
pub(in crate::config) fn list(value: &Value) -> Result<&[Value], String> {
    value.as_array().map(Vec::as_slice).ok_or_else(|| "must be a list".to_owned())
}

/// A single value as text; numbers need no quotes.
pub(in crate::config) fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(truth) => Ok(truth.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => Err("must be one value".to_owned()),
    }
}

/// `true` or `false`.
pub(in crate::config) fn truth(value: &Value) -> Result<bool, String> {
    match (value, value.as_str()) {
        (Value::Bool(truth), _) => Ok(*truth),
        (_, Some("true")) => Ok(true),
        (_, Some("false")) => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// A whole number of 0 or more.
pub(in crate::config) fn count<N: TryFrom<u64>>(value: &Value) -> Result<N, String> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let number = number.and_then(|number| N::try_from(number).ok());
    number.ok_or_else(|| "must be a whole number of 0 or more".to_owned())
}

/// A duration in the notation of Prometheus or Go; not negative.
pub(in crate::config) fn duration(value: &Value) -> Result<Duration, String> {
    let text = text(value)?;
    let ns = parse_model_duration_ns(&text).ok().or_else(|| parse_go_duration_ns(&text).ok());
    let ns = ns.filter(|&ns| ns >= 0);
    let fault = || format!("{text:?} is not a duration such as 90s, 10m or 1h30m");
    Ok(Duration::from_nanos(ns.ok_or_else(fault)?.unsigned_abs()))
}

/// A duration that is not 0.
pub(in crate::config) fn some_time(value: &Value) -> Result<Duration, String> {
    let time = duration(value)?;
    if time.is_zero() { Err("must be more than 0".to_owned()) } else { Ok(time) }
}

/// Hands every key with a value to `read`, which says whether it knows the key.
///
/// # Errors
/// The first error of a key, or a key that is in none of `known`. `read` decides; `known` serves
/// to find the nearest one.
pub(in crate::config) fn each(
    value: &Value,
    known: &[&str],
    mut read: impl FnMut(&str, &Value) -> Result<(), String>,
) -> Result<(), String> {
    for (key, value) in section(value)? {
        if !known.contains(&key.as_str()) {
            return Err(match nearest(key, known.iter().copied()) {
                Some(nearest) => format!("{key}: unknown key; did you mean {nearest}?"),
                None => format!("{key}: unknown key"),
            });
        }
        // A key without a value keeps the default.
        if !value.is_null() {
            read(key, value).map_err(|error| {
                // The key of a section stands before the keys in it.
                let inner = error.split_once(": ").is_some_and(|(key, _)| known_word(key));
                if inner { format!("{key}.{error}") } else { format!("{key}: {error}") }
            })?;
        }
    }
    Ok(())
}

/// Whether a text may be the path of a key.
fn known_word(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    !text.is_empty() && text.bytes().all(is_word)
}
