//! Label values as numbers, with the messages of the reference's conversions.

use crate::syntax::go_duration::parse_go_duration;
use crate::syntax::go_float::parse_float;

/// Units of a humanised byte size, lower case.
const UNITS: [(&[&str], u64); 13] = [
    (&["", "b"], 1),
    (&["k", "kb"], 1_000),
    (&["m", "mb"], 1_000_000),
    (&["g", "gb"], 1_000_000_000),
    (&["t", "tb"], 1_000_000_000_000),
    (&["p", "pb"], 1_000_000_000_000_000),
    (&["e", "eb"], 1_000_000_000_000_000_000),
    (&["ki", "kib"], 1 << 10),
    (&["mi", "mib"], 1 << 20),
    (&["gi", "gib"], 1 << 30),
    (&["ti", "tib"], 1 << 40),
    (&["pi", "pib"], 1 << 50),
    (&["ei", "eib"], 1 << 60),
];

/// Reads a decimal float.
///
/// # Errors
/// `strconv.ParseFloat: parsing "x": invalid syntax`, or `value out of range`.
pub(crate) fn number(value: &[u8]) -> Result<f64, String> {
    parse_float(&String::from_utf8_lossy(value))
}

/// Reads a Go duration, in nanoseconds.
///
/// # Errors
/// `time: invalid duration "x"` and the like.
pub(crate) fn duration_ns(value: &[u8]) -> Result<i64, String> {
    parse_go_duration(&String::from_utf8_lossy(value))
}

/// Reads a Go duration, in seconds.
///
/// # Errors
/// As [`duration_ns`].
pub(crate) fn duration_seconds(value: &[u8]) -> Result<f64, String> {
    let duration_ns = duration_ns(value)?;
    let (seconds, rest_ns) = (duration_ns / 1_000_000_000, duration_ns % 1_000_000_000);
    Ok(seconds as f64 + rest_ns as f64 / 1e9)
}

/// Reads a humanised byte size such as `1.5 KiB`, in bytes.
///
/// # Errors
/// The message of the failed number, `unhandled size name: x`, or `too large: x`.
pub(crate) fn bytes(value: &[u8]) -> Result<u64, String> {
    let text = String::from_utf8_lossy(value);
    let end =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == ',')).unwrap_or(text.len());
    let number = match &text[..end] {
        digits if digits.contains(',') => parse_float(&digits.replace(',', ""))?,
        digits => parse_float(digits)?,
    };
    let unit = text[end..].trim();
    let is_unit = |name: &&str| name.eq_ignore_ascii_case(unit);
    let known = UNITS.iter().find(|(names, _)| names.iter().any(is_unit));
    let Some((_, factor)) = known else {
        return Err(format!("unhandled size name: {}", unit.to_lowercase()));
    };
    let size = number * *factor as f64;
    if size >= u64::MAX as f64 {
        return Err(format!("too large: {text}"));
    }
    Ok(size as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn humanised_sizes_read_like_the_references() {
        for (text, size) in [
            ("10", 10),
            ("10 KB", 10_000),
            ("1,100", 1_100),
            ("10kib", 10_240),
            ("1.5 k", 1_500),
            ("0b", 0),
        ] {
            assert_eq!(bytes(text.as_bytes()), Ok(size), "{text}");
        }
        for (text, error) in [
            ("-5KB", r#"strconv.ParseFloat: parsing "": invalid syntax"#),
            ("1e3", "unhandled size name: e3"),
            ("20EB", "too large: 20EB"),
        ] {
            assert_eq!(bytes(text.as_bytes()), Err(error.to_owned()), "{text}");
        }
    }

    #[test]
    fn durations_become_seconds() {
        assert_eq!(duration_seconds(b"1m0.5s"), Ok(60.5));
        assert_eq!(duration_seconds(b"-250ms"), Ok(-0.25));
        let error = duration_seconds(b"1d").expect_err("no such unit");
        assert_eq!(error, r#"time: unknown unit "d" in duration "1d""#);
    }
}
