//! Durations in the two notations of the field: Prometheus' model style
//! (`1d12h`, whole numbers, falling units) and Go style (`1h30m0.5s`).

use std::fmt::Write;

use super::quote::{quoted, quoted_by_time};

/// Why a duration text was refused; the messages of Prometheus' and Go's
/// libraries.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DurationError {
    /// No text.
    #[error("empty duration string")]
    Empty,
    /// Not of the form.
    #[error("not a valid duration string: {}", quoted(.0))]
    Malformed(String),
    /// A unit that does not exist.
    #[error("unknown unit {} in duration {}", quoted(unit), quoted(text))]
    UnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
    /// More than signed 64-bit nanoseconds hold.
    #[error("duration out of range")]
    OutOfRange,
    /// Not a Go duration.
    #[error("time: invalid duration {}", quoted_by_time(.0))]
    GoInvalid(String),
    /// A Go duration with a number that has no unit.
    #[error("time: missing unit in duration {}", quoted_by_time(.0))]
    GoMissingUnit(String),
    /// A Go duration with a unit that does not exist.
    #[error("time: unknown unit {} in duration {}", quoted_by_time(unit), quoted_by_time(text))]
    GoUnknownUnit {
        /// The unit.
        unit: String,
        /// The whole text.
        text: String,
    },
}

const MILLISECOND_NS: u64 = 1_000_000;
const SECOND_NS: u64 = 1_000_000_000;
const MINUTE_NS: u64 = 60 * SECOND_NS;
const HOUR_NS: u64 = 60 * MINUTE_NS;
const DAY_NS: u64 = 24 * HOUR_NS;

/// Units of the model style, from the largest down.
const MODEL_UNITS: [(&str, u64); 7] = [
    ("y", 365 * DAY_NS),
    ("w", 7 * DAY_NS),
    ("d", DAY_NS),
    ("h", HOUR_NS),
    ("m", MINUTE_NS),
    ("s", SECOND_NS),
    ("ms", MILLISECOND_NS),
];

/// Reads a model-style duration: parts of a whole number and a unit out of
/// `y w d h m s ms`, in falling order, each unit at most once; or a bare `0`. Never negative.
///
/// # Errors
/// The first problem from the left, in the words of Prometheus.
pub fn parse_model_duration_ns(text: &str) -> Result<i64, DurationError> {
    match text {
        "0" => return Ok(0),
        "" => return Err(DurationError::Empty),
        _ => {}
    }
    let malformed = || DurationError::Malformed(text.to_owned());
    let mut rest = text;
    let mut total_ns = 0i64;
    let mut units = &MODEL_UNITS[..];
    while !rest.is_empty() {
        let (number, behind) = split_while(rest, |byte| byte.is_ascii_digit());
        let (unit, behind) = split_while(behind, |byte| !byte.is_ascii_digit());
        if number.is_empty() || unit.is_empty() {
            return Err(malformed());
        }
        let number: u64 = number.parse().map_err(|_| malformed())?;
        if !MODEL_UNITS.iter().any(|(known, _)| *known == unit) {
            let (unit, text) = (unit.to_owned(), text.to_owned());
            return Err(DurationError::UnknownUnit { unit, text });
        }
        let index = units.iter().position(|(known, _)| *known == unit).ok_or_else(malformed)?;
        total_ns = number
            .checked_mul(units[index].1)
            .and_then(|part_ns| total_ns.checked_add_unsigned(part_ns))
            .ok_or(DurationError::OutOfRange)?;
        units = &units[index + 1..];
        rest = behind;
    }
    Ok(total_ns)
}

/// Reads a Go-style duration: an optional sign, then decimal numbers with units
/// out of `ns us µs μs ms s m h`, in any order; or a bare `0`.
///
/// # Errors
/// The first problem from the left, in the words of Go.
pub fn parse_go_duration_ns(text: &str) -> Result<i64, DurationError> {
    /// The magnitude of the smallest duration.
    const LIMIT: u64 = 1 << 63;
    let invalid = || DurationError::GoInvalid(text.to_owned());
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    let mut total_ns = 0u64;
    while !rest.is_empty() {
        let (whole, behind) = split_while(rest, |byte| byte.is_ascii_digit());
        let (fraction, behind) = match behind.strip_prefix('.') {
            Some(behind) => split_while(behind, |byte| byte.is_ascii_digit()),
            None => ("", behind),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| invalid())? };
        if whole > LIMIT {
            return Err(invalid());
        }
        let (unit, behind) = split_while(behind, |byte| byte != b'.' && !byte.is_ascii_digit());
        let unit_ns = match unit {
            "" => return Err(DurationError::GoMissingUnit(text.to_owned())),
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => MILLISECOND_NS,
            "s" => SECOND_NS,
            "m" => MINUTE_NS,
            "h" => HOUR_NS,
            unit => {
                let (unit, text) = (unit.to_owned(), text.to_owned());
                return Err(DurationError::GoUnknownUnit { unit, text });
            }
        };
        total_ns = whole
            .checked_mul(unit_ns)
            .and_then(|part_ns| part_ns.checked_add(fraction_ns(fraction, unit_ns)))
            .and_then(|part_ns| total_ns.checked_add(part_ns))
            .filter(|&total_ns| total_ns <= LIMIT)
            .ok_or_else(invalid)?;
        rest = behind;
    }
    match (negative, i64::try_from(total_ns)) {
        (false, Ok(total_ns)) => Ok(total_ns),
        (false, Err(_)) => Err(invalid()),
        (true, total_ns) => Ok(total_ns.map_or(i64::MIN, |total_ns| -total_ns)),
    }
}

/// A decimal fraction of a unit, cut off to nanoseconds. Digits beyond the range of `i64` do not
/// count.
fn fraction_ns(digits: &str, unit_ns: u64) -> u64 {
    let (mut value, mut scale) = (0u64, 1.0);
    for digit in digits.bytes() {
        let next = value.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
        if value > (i64::MAX as u64) / 10 || next > 1 << 63 {
            break;
        }
        value = next;
        scale *= 10.0;
    }
    (value as f64 * (unit_ns as f64 / scale)) as u64
}

fn split_while(text: &str, accept: impl Fn(u8) -> bool) -> (&str, &str) {
    // Units may be of several bytes, but the split is always beside ASCII.
    let end = text.bytes().position(|byte| !accept(byte)).unwrap_or(text.len());
    text.split_at(end)
}

/// Prints a duration in model style, as configured limits are: `30d1h`, `0s`.
/// Parts below a millisecond are cut off.
pub fn format_model_duration(duration_ns: i64) -> String {
    let mut rest_ms = duration_ns.unsigned_abs() / MILLISECOND_NS;
    if rest_ms == 0 {
        return "0s".to_owned();
    }
    let mut out = String::from(if duration_ns < 0 { "-" } else { "" });
    for (unit, unit_ns) in MODEL_UNITS {
        let unit_ms = unit_ns / MILLISECOND_NS;
        // Years and weeks only if nothing remains: 90d reads better than 12w6d.
        let exact_only = matches!(unit, "y" | "w");
        let count = rest_ms / unit_ms;
        if count > 0 && (!exact_only || rest_ms.is_multiple_of(unit_ms)) {
            write!(out, "{count}{unit}").expect("a String takes all");
            rest_ms -= count * unit_ms;
        }
    }
    out
}

/// Prints a duration in Go style, as measured lengths are: `3h45m0s`, `1.5ms`.
pub fn format_go_duration(duration_ns: i64) -> String {
    let total_ns = duration_ns.unsigned_abs();
    let mut out = String::from(if duration_ns < 0 { "-" } else { "" });
    if total_ns == 0 {
        return "0s".to_owned();
    }
    let (unit, unit_ns) = match total_ns {
        0..1_000 => ("ns", 1),
        1_000..MILLISECOND_NS => ("µs", 1_000),
        MILLISECOND_NS..SECOND_NS => ("ms", MILLISECOND_NS),
        _ => ("s", SECOND_NS),
    };
    let mut below_minute_ns = total_ns;
    if total_ns >= MINUTE_NS {
        if total_ns >= HOUR_NS {
            write!(out, "{}h", total_ns / HOUR_NS).expect("a String takes all");
        }
        write!(out, "{}m", total_ns / MINUTE_NS % 60).expect("a String takes all");
        below_minute_ns = total_ns % MINUTE_NS;
    }
    write!(out, "{}", below_minute_ns / unit_ns).expect("a String takes all");
    let fraction = below_minute_ns % unit_ns;
    if fraction > 0 {
        let width = unit_ns.ilog10() as usize;
        write!(out, ".{fraction:0width$}").expect("a String takes all");
        out.truncate(out.trim_end_matches('0').len());
    }
    out + unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn model_durations_are_read() {
        let hour = 3_600_000_000_000;
        let cases = [
            ("5m", Ok(hour / 12)),
            ("1h30m", Ok(hour + hour / 2)),
            ("250ms", Ok(250_000_000)),
            ("1d12h", Ok(36 * hour)),
            ("1y2w3d4h5m6s7ms", Ok(33_019_506_007_000_000)),
            ("0", Ok(0)),
            ("0s", Ok(0)),
            ("", Err("empty duration string")),
            ("5", Err("not a valid duration string: \"5\"")),
            ("-5m", Err("not a valid duration string: \"-5m\"")),
            ("abc", Err("not a valid duration string: \"abc\"")),
            ("1h1d", Err("not a valid duration string: \"1h1d\"")),
            ("1m1m", Err("not a valid duration string: \"1m1m\"")),
            ("0.5m", Err("unknown unit \".\" in duration \"0.5m\"")),
            ("1x", Err("unknown unit \"x\" in duration \"1x\"")),
            ("5M", Err("unknown unit \"M\" in duration \"5M\"")),
            ("300y", Err("duration out of range")),
            ("300y5x", Err("duration out of range")),
            ("1y2w3d4h5m6s7ms", Ok(33_019_506_007_000_000)),
            ("5m ", Err("unknown unit \"m \" in duration \"5m \"")),
            ("5é", Err("unknown unit \"é\" in duration \"5é\"")),
            (
                "99999999999999999999s",
                Err("not a valid duration string: \"99999999999999999999s\""),
            ),
        ];
        for (text, expected) in cases {
            let got = parse_model_duration_ns(text).map_err(|error| error.to_string());
            assert_eq!(got, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn go_durations_are_read() {
        let cases = [
            ("1.5h", Ok(5_400_000_000_000)),
            ("-1h", Ok(-3_600_000_000_000)),
            ("1h0.0m0s", Ok(3_600_000_000_000)),
            ("1s1s", Ok(2_000_000_000)),
            ("10µs", Ok(10_000)),
            (".5s", Ok(500_000_000)),
            ("0", Ok(0)),
            ("-9223372036854775808ns", Ok(i64::MIN)),
            ("9223372036854775808ns", Err("time: invalid duration \"9223372036854775808ns\"")),
            ("99999999999999999999q", Err("time: invalid duration \"99999999999999999999q\"")),
            ("1é", Err("time: unknown unit \"\\xc3\\xa9\" in duration \"1\\xc3\\xa9\"")),
            ("90.000000001s", Ok(90_000_000_001)),
            ("+5s", Ok(5_000_000_000)),
            ("10\u{3bc}s", Ok(10_000)),
            ("soon", Err("time: invalid duration \"soon\"")),
            ("", Err("time: invalid duration \"\"")),
            (".s", Err("time: invalid duration \".s\"")),
            ("-259", Err("time: missing unit in duration \"-259\"")),
            ("5q", Err("time: unknown unit \"q\" in duration \"5q\"")),
        ];
        for (text, expected) in cases {
            let got = parse_go_duration_ns(text).map_err(|error| error.to_string());
            assert_eq!(got, expected.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn durations_are_printed_in_both_styles() {
        let hour = 3_600_000_000_000;
        let cases = [
            (0, "0s", "0s"),
            (721 * hour, "30d1h", "721h0m0s"),
            (2 * hour, "2h", "2h0m0s"),
            (168 * hour, "1w", "168h0m0s"),
            (365 * 24 * hour, "1y", "8760h0m0s"),
            (3 * hour + 45 * 60 * 1_000_000_000, "3h45m", "3h45m0s"),
            (1_795_225_160_036_000_000, "20778d1h39m20s36ms", "498673h39m20.036s"),
            (90_000_000_000, "1m30s", "1m30s"),
            (250_000_000, "250ms", "250ms"),
            (1_500_000, "1ms", "1.5ms"),
            (10_000, "0s", "10µs"),
            (1, "0s", "1ns"),
            (-hour, "-1h", "-1h0m0s"),
        ];
        for (duration_ns, model, go) in cases {
            assert_eq!(format_model_duration(duration_ns), model);
            assert_eq!(format_go_duration(duration_ns), go);
        }
        assert_eq!(format_go_duration(i64::MIN), "-2562047h47m16.854775808s");
    }

    #[test]
    fn go_durations_are_printed_as_they_are_read() {
        for (text, ns, printed) in [
            ("1.5h", 5_400_000_000_000, "1h30m0s"),
            ("1h0.0m0s", 3_600_000_000_000, "1h0m0s"),
            ("1m1h", 3_660_000_000_000, "1h1m0s"),
            ("1s1s", 2_000_000_000, "2s"),
            ("-250ms", -250_000_000, "-250ms"),
            ("1500ms", 1_500_000_000, "1.5s"),
            ("10\u{b5}s", 10_000, "10\u{b5}s"),
            ("10\u{3bc}s", 10_000, "10\u{b5}s"),
            ("1.5us", 1_500, "1.5\u{b5}s"),
            ("7ns", 7, "7ns"),
            (".5s", 500_000_000, "500ms"),
            ("0", 0, "0s"),
            ("+5s", 5_000_000_000, "5s"),
            ("90.000000001s", 90_000_000_001, "1m30.000000001s"),
            ("2562047h47m16.854775807s", i64::MAX, "2562047h47m16.854775807s"),
            ("-2562047h47m16.854775808s", i64::MIN, "-2562047h47m16.854775808s"),
        ] {
            assert_eq!(parse_go_duration_ns(text), Ok(ns), "{text}");
            assert_eq!(format_go_duration(ns), printed);
        }
        for (text, message) in [
            ("bad", "invalid duration \"bad\""),
            ("", "invalid duration \"\""),
            ("5", "missing unit in duration \"5\""),
            ("-259", "missing unit in duration \"-259\""),
            ("1d", "unknown unit \"d\" in duration \"1d\""),
            ("1é", "unknown unit \"\\xc3\\xa9\" in duration \"1\\xc3\\xa9\""),
            (".s", "invalid duration \".s\""),
            ("2562047h47m16.854775808s", "invalid duration \"2562047h47m16.854775808s\""),
            ("99999999999999999999s", "invalid duration \"99999999999999999999s\""),
        ] {
            let error = parse_go_duration_ns(text).expect_err("not a duration");
            assert_eq!(error.to_string(), format!("time: {message}"));
        }
    }

    #[test]
    fn model_durations_are_printed_as_they_are_read() {
        for (text, ns, printed) in [
            ("0", 0, "0s"),
            ("1h30m", 5_400_000_000_000, "1h30m"),
            ("90s", 90_000_000_000, "1m30s"),
            ("1w2d", 9 * 86_400_000_000_000, "9d"),
            ("7d", 7 * 86_400_000_000_000, "1w"),
            ("365d", 365 * 86_400_000_000_000, "1y"),
            ("1s500ms", 1_500_000_000, "1s500ms"),
            ("1y2w3d4h5m6s7ms", 33_019_506_007_000_000, "382d4h5m6s7ms"),
        ] {
            assert_eq!(parse_model_duration_ns(text), Ok(ns), "{text}");
            assert_eq!(format_model_duration(ns), printed);
        }
        for (text, message) in [
            ("", "empty duration string"),
            ("5minutes", "unknown unit \"minutes\" in duration \"5minutes\""),
            ("5m ", "unknown unit \"m \" in duration \"5m \""),
            ("1.5h", "unknown unit \".\" in duration \"1.5h\""),
            ("90", "not a valid duration string: \"90\""),
            ("1m1h", "not a valid duration string: \"1m1h\""),
            ("1s1s", "not a valid duration string: \"1s1s\""),
            ("-5m", "not a valid duration string: \"-5m\""),
            ("300y", "duration out of range"),
            ("99999999999999y", "duration out of range"),
        ] {
            let error = parse_model_duration_ns(text).expect_err("not a duration");
            assert_eq!(error.to_string(), message);
        }
    }
}
