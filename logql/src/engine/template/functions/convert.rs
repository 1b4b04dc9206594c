//! Text to numbers.

use super::{Function, Param, text};
use crate::engine::convert;
use crate::engine::template::number::parse_int;
use crate::engine::template::value::Value;
use logsvc_proto::go::float::parse_float;

pub(super) const FUNCTIONS: &[Function] = &[
    Function::new("int", &[Param::Any], |_, args| Ok(Value::Int(to_int(&args[0])))),
    Function::new("float64", &[Param::Any], |_, args| Ok(Value::Float(to_float(&args[0])))),
    Function::new("bytes", &[Param::Text], |_, args| {
        let size = convert::bytes(text(args, 0)?.bytes())?;
        Ok(Value::Float(size as f64))
    }),
    Function::new("duration", &[Param::Text], |_, args| {
        convert::duration_seconds(text(args, 0)?.bytes()).map(Value::Float)
    }),
    Function::new("duration_seconds", &[Param::Text], |_, args| {
        convert::duration_seconds(text(args, 0)?.bytes()).map(Value::Float)
    }),
];

/// Any value as an integer; 0 for a value that is no number.
pub(super) fn to_int(value: &Value<'_>) -> i64 {
    match value {
        Value::Bool(value) => i64::from(*value),
        Value::Float(value) => truncate(*value),
        Value::Text(text) => std::str::from_utf8(text.bytes()).map_or(0, text_to_int),
        other => other.as_int().unwrap_or(0),
    }
}

/// Go's conversion on the usual machines: a value that does not fit becomes the smallest
/// integer.
fn truncate(value: f64) -> i64 {
    let truncated = value as i64;
    if value.is_nan() || truncated == i64::MAX { i64::MIN } else { truncated }
}

fn text_to_int(text: &str) -> i64 {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let is_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let whole = match unsigned.split_once('.') {
        Some((whole, fraction)) if is_digits(whole) && is_digits(fraction) => {
            &text[..text.len() - fraction.len() - 1]
        }
        _ => text,
    };
    parse_int(whole).unwrap_or(0)
}

/// Any value as a float; 0 for a value that is no number.
pub(super) fn to_float(value: &Value<'_>) -> f64 {
    match value {
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Float(value) => *value,
        Value::Text(text) => {
            std::str::from_utf8(text.bytes()).map_or(0.0, |text| parse_float(text).unwrap_or(0.0))
        }
        other => other.as_int().map_or(0.0, |int| int as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_found_in_anything() {
        for (text, expected) in [
            ("123", 123),
            ("12.7", 12),
            ("-12.7", -12),
            ("abc", 0),
            ("0x1f", 31),
            ("010", 8),
            ("010.9", 8),
            ("0b1", 1),
            ("1_000", 1000),
            ("1e3", 0),
            (" 5", 0),
            ("12.", 12),
            ("-.5", 0),
            ("1.2.3", 0),
            ("", 0),
            ("99999999999999999999", 0),
        ] {
            assert_eq!(to_int(&Value::text(text.as_bytes())), expected, "{text}");
        }
        assert_eq!(to_int(&Value::Float(-2.9)), -2);
        assert_eq!(to_int(&Value::Float(1e300)), i64::MIN);
        assert_eq!(to_int(&Value::Float(f64::NAN)), i64::MIN);
        assert_eq!(to_int(&Value::Bool(true)), 1);
        assert_eq!(to_int(&Value::Nothing), 0);
        assert_eq!(to_float(&Value::text(&b"1e3"[..])), 1000.0);
        assert_eq!(to_float(&Value::text(&b"x"[..])), 0.0);
        assert_eq!(to_float(&Value::text(&b"inf"[..])), f64::INFINITY);
        assert_eq!(to_float(&Value::text(&b"1e999"[..])), 0.0);
    }
}
