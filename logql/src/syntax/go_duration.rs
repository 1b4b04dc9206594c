//! Durations as Go and Prometheus read and write them.

use std::fmt::Write;

use super::go_text::quote;

/// Nanoseconds of the units of a Go duration.
fn go_unit_ns(unit: &str) -> Option<u64> {
    Some(match unit {
        "ns" => 1,
        "us" | "\u{b5}s" | "\u{3bc}s" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// Reads a duration like Go's `time.ParseDuration`, in nanoseconds.
///
/// # Errors
/// Go's message, `time: unknown unit "d" in duration "1d"` for instance.
pub fn parse_go_duration(text: &str) -> Result<i64, String> {
    let invalid = || format!("time: invalid duration {}", time_quote(text));
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(invalid());
    }
    const LIMIT: u64 = 1 << 63;
    let mut total = 0u64;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let whole = &rest[..digits];
        rest = &rest[digits..];
        let value = whole.bytes().try_fold(0u64, |value, b| {
            value
                .checked_mul(10)
                .and_then(|v| v.checked_add(u64::from(b - b'0')))
                .filter(|v| *v <= LIMIT)
        });
        let value = value.ok_or_else(invalid)?;
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            fraction = &after[..digits];
            rest = &after[digits..];
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(invalid());
        }
        let is_end = |b: u8| b == b'.' || b.is_ascii_digit();
        let end = rest.bytes().position(is_end).unwrap_or(rest.len());
        let unit = &rest[..end];
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", time_quote(text)));
        }
        rest = &rest[end..];
        let unit_ns = go_unit_ns(unit).ok_or_else(|| {
            format!("time: unknown unit {} in duration {}", time_quote(unit), time_quote(text))
        })?;
        let mut value = value.checked_mul(unit_ns).filter(|v| *v <= LIMIT).ok_or_else(invalid)?;
        let (fraction, scale) = leading_fraction(fraction);
        if fraction > 0 {
            value += (fraction as f64 * (unit_ns as f64 / scale)) as u64;
        }
        total = total.checked_add(value).filter(|v| *v <= LIMIT).ok_or_else(invalid)?;
    }
    if negative {
        return Ok((total as i64).wrapping_neg());
    }
    i64::try_from(total).map_err(|_| invalid())
}

/// The digits behind a decimal point as an integer and its scale; digits beyond
/// the range of `i64` are left out.
fn leading_fraction(digits: &str) -> (u64, f64) {
    let mut value = 0u64;
    let mut scale = 1.0;
    for b in digits.bytes() {
        let next = value.saturating_mul(10).saturating_add(u64::from(b - b'0'));
        if value > (i64::MAX as u64) / 10 || next > 1 << 63 {
            break;
        }
        value = next;
        scale *= 10.0;
    }
    (value, scale)
}

/// Quoting of Go's `time` package, which escapes every byte beyond ASCII.
fn time_quote(text: &str) -> String {
    let mut out = String::from("\"");
    for b in text.bytes() {
        match b {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(b));
            }
            0x20..=0x7f => out.push(char::from(b)),
            _ => write!(out, "\\x{b:02x}").expect("writing to a String succeeds"),
        }
    }
    out.push('"');
    out
}

const MS: u64 = 1_000_000;

/// Units of a Prometheus duration, largest first, in nanoseconds.
const PROMETHEUS_UNITS: [(&str, u64); 7] = [
    ("y", 365 * 24 * 3_600_000 * MS),
    ("w", 7 * 24 * 3_600_000 * MS),
    ("d", 24 * 3_600_000 * MS),
    ("h", 3_600_000 * MS),
    ("m", 60_000 * MS),
    ("s", 1_000 * MS),
    ("ms", MS),
];

/// Reads a Prometheus duration, in nanoseconds: integers with units from largest
/// to smallest, or a bare `0`. Never negative.
///
/// # Errors
/// The message of Prometheus, `unknown unit "x" in duration "5x"` for instance.
pub fn parse_prometheus_duration(text: &str) -> Result<i64, String> {
    match text {
        "0" => return Ok(0),
        "" => return Err("empty duration string".to_owned()),
        _ => {}
    }
    let invalid = || format!("not a valid duration string: {}", quote(text.as_bytes()));
    let out_of_range = || "duration out of range".to_owned();
    let mut rest = text;
    let mut total = 0u64;
    let mut next_unit = 0;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let value: u64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let unit = &rest[..end];
        if unit.is_empty() {
            return Err(invalid());
        }
        rest = &rest[end..];
        let Some(index) = PROMETHEUS_UNITS.iter().position(|(name, _)| *name == unit) else {
            return Err(format!(
                "unknown unit {} in duration {}",
                quote(unit.as_bytes()),
                quote(text.as_bytes())
            ));
        };
        if index < next_unit {
            return Err(invalid());
        }
        next_unit = index + 1;
        total = value
            .checked_mul(PROMETHEUS_UNITS[index].1)
            .and_then(|ns| total.checked_add(ns))
            .filter(|ns| i64::try_from(*ns).is_ok())
            .ok_or_else(out_of_range)?;
    }
    i64::try_from(total).map_err(|_| out_of_range())
}

/// Appends a duration in Prometheus style, truncated to milliseconds: years and
/// weeks only when they divide exactly. Negative durations have no such form and
/// print as zero.
pub fn write_prometheus_duration(out: &mut String, duration_ns: i64) {
    let mut left_ms = u64::try_from(duration_ns).unwrap_or(0) / MS;
    if left_ms == 0 {
        out.push_str("0s");
        return;
    }
    for (index, (unit, unit_ns)) in PROMETHEUS_UNITS.iter().enumerate() {
        let unit_ms = unit_ns / MS;
        let count = left_ms / unit_ms;
        if count == 0 || (index < 2 && !left_ms.is_multiple_of(unit_ms)) {
            continue;
        }
        write!(out, "{count}{unit}").expect("writing to a String succeeds");
        left_ms -= count * unit_ms;
    }
}

/// Appends a duration in Go style: `1h30m0s`, `1.5s`, `250ms`, `10µs`, `0s`.
pub fn write_go_duration(out: &mut String, duration_ns: i64) {
    let total = duration_ns.unsigned_abs();
    if duration_ns < 0 {
        out.push('-');
    }
    let (unit_ns, suffix) = match total {
        0 => (1_000_000_000, "s"),
        1..1_000 => (1, "ns"),
        1_000..1_000_000 => (1_000, "\u{b5}s"),
        1_000_000..1_000_000_000 => (1_000_000, "ms"),
        _ => (1_000_000_000, "s"),
    };
    let minutes = total / 60_000_000_000;
    if minutes >= 60 {
        write!(out, "{}h", minutes / 60).expect("writing to a String succeeds");
    }
    if minutes > 0 {
        write!(out, "{}m", minutes % 60).expect("writing to a String succeeds");
    }
    let rest = total % 60_000_000_000;
    write!(out, "{}", rest / unit_ns).expect("writing to a String succeeds");
    if !rest.is_multiple_of(unit_ns) {
        let width = unit_ns.ilog10() as usize;
        let digits = format!("{:0width$}", rest % unit_ns);
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
    out.push_str(suffix);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_durations() {
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
            assert_eq!(parse_go_duration(text), Ok(ns), "{text}");
            let mut out = String::new();
            write_go_duration(&mut out, ns);
            assert_eq!(out, printed);
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
            assert_eq!(parse_go_duration(text), Err(format!("time: {message}")));
        }
    }

    #[test]
    fn prometheus_durations() {
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
            assert_eq!(parse_prometheus_duration(text), Ok(ns), "{text}");
            let mut out = String::new();
            write_prometheus_duration(&mut out, ns);
            assert_eq!(out, printed);
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
            assert_eq!(parse_prometheus_duration(text), Err(message.to_owned()));
        }
    }
}
