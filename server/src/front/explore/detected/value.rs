//! The type of the value that a text holds.

use logsvc_logql::engine::parse_field_bytes;
use logsvc_proto::encode::FieldType;
use logsvc_proto::go::duration::parse_go_duration_ns;
use logsvc_proto::go::float::parse_float;

/// The type of a value, by the first reader that takes it.
pub(super) fn type_of(value: &str) -> FieldType {
    if is_integer(value) {
        FieldType::Int
    } else if parse_float(value).is_ok() {
        FieldType::Float
    } else if is_boolean(value) {
        FieldType::Boolean
    } else if parse_go_duration_ns(value).is_ok() {
        FieldType::Duration
    } else if parse_field_bytes(value).is_some() {
        FieldType::Bytes
    } else {
        FieldType::String
    }
}

/// An integer of 64 bits in decimal digits.
fn is_integer(value: &str) -> bool {
    let digits = value.strip_prefix(['+', '-']).unwrap_or(value);
    !digits.is_empty()
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && value.parse::<i64>().is_ok()
}

/// As Go's `strconv.ParseBool` has it; its `0` and `1` are numbers by then.
fn is_boolean(value: &str) -> bool {
    matches!(value, "t" | "T" | "TRUE" | "true" | "True" | "f" | "F" | "FALSE" | "false" | "False")
}

/// A value as it can be put into a query: sizes get the one spelling that label
/// filters print, everything else stays.
pub(super) fn normalized(value: &str) -> String {
    if parse_float(value).is_ok() {
        return value.to_owned();
    }
    match parse_field_bytes(value) {
        Some(bytes) => print_bytes(bytes),
        None => value.to_owned(),
    }
}

/// A size in units of 1000, with one decimal below ten of a unit: `1.5kB`, `38kB`.
fn print_bytes(bytes: u64) -> String {
    if bytes < 10 {
        return format!("{bytes}B");
    }
    let exponent = ((bytes as f64).ln() / 1000f64.ln()).floor() as usize;
    let exponent = exponent.min(6);
    let scaled = bytes as f64 / 1000f64.powi(exponent as i32);
    let scaled = (scaled * 10.0 + 0.5).floor() / 10.0;
    let decimals = usize::from(scaled < 10.0);
    format!("{scaled:.decimals$}{}", ["B", "kB", "MB", "GB", "TB", "PB", "EB"][exponent])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_tried_in_order() {
        for (value, expected) in [
            ("12", FieldType::Int),
            ("-7", FieldType::Int),
            ("1", FieldType::Int),
            ("9223372036854775808", FieldType::Float),
            ("1.5", FieldType::Float),
            ("1e3", FieldType::Float),
            ("NaN", FieldType::Float),
            ("true", FieldType::Boolean),
            ("F", FieldType::Boolean),
            ("yes", FieldType::String),
            ("15ms", FieldType::Duration),
            ("1h30m", FieldType::Duration),
            ("90m", FieldType::Duration),
            ("1d", FieldType::String),
            ("12kb", FieldType::Bytes),
            ("3 MiB", FieldType::Bytes),
            ("10.0.0.1", FieldType::String),
            ("", FieldType::String),
        ] {
            assert_eq!(type_of(value), expected, "{value}");
        }
    }

    #[test]
    fn sizes_have_one_spelling() {
        for (value, expected) in [
            ("38kb", "38kB"),
            ("1536B", "1.5kB"),
            ("9 b", "9B"),
            ("90m", "90MB"),
            ("1KiB", "1.0kB"),
            ("10", "10"),
            ("1.5", "1.5"),
            ("GET", "GET"),
            ("15ms", "15ms"),
        ] {
            assert_eq!(normalized(value), expected, "{value}");
        }
    }
}
