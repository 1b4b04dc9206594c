//! The times that programs write into fields.

use crate::time::parse_rfc3339_ns;

/// Numbers below these are s, ms and µs since 1970; larger ones are ns. So seconds reach to the year
/// 5138, and ms, µs and ns begin in 1973.
const SECONDS_END: u64 = 100_000_000_000;
const MILLIS_END: u64 = SECONDS_END * 1000;
const MICROS_END: u64 = MILLIS_END * 1000;

/// Bytes of the longest time.
const TEXT_MAX_BYTES: usize = 64;

/// Reads a time in ns since 1970: RFC 3339, also with a blank for the `T`, without the colon of the
/// zone, or without a zone, which means UTC; or a number, whose unit follows from its size.
pub fn read_time_ns(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if text.len() > TEXT_MAX_BYTES || !text.is_ascii() {
        return None;
    }
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().next()?.is_ascii_digit()
        && digits.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        let ns = read_number(digits)?;
        return Some(if digits.len() < text.len() { -ns } else { ns });
    }
    if digits.contains(['e', 'E']) && !digits.contains(':') {
        return read_exponent(text);
    }
    read_date(text)
}

fn read_number(digits: &str) -> Option<i64> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let whole: u64 = whole.parse().ok()?;
    let unit_ns = unit_ns(whole);
    let mut ns = i64::try_from(whole).ok()?.checked_mul(unit_ns)?;
    let mut place_ns = unit_ns;
    for digit in fraction.bytes() {
        // A second point is no digit.
        if !digit.is_ascii_digit() {
            return None;
        }
        place_ns /= 10;
        ns = ns.checked_add(place_ns * i64::from(digit - b'0'))?;
    }
    Some(ns)
}

fn unit_ns(whole: u64) -> i64 {
    match whole {
        0..SECONDS_END => 1_000_000_000,
        SECONDS_END..MILLIS_END => 1_000_000,
        MILLIS_END..MICROS_END => 1000,
        MICROS_END.. => 1,
    }
}

/// A number with an exponent, as some libraries print large numbers.
fn read_exponent(text: &str) -> Option<i64> {
    let number: f64 = text.parse().ok()?;
    let ns = number * unit_ns(number.abs() as u64) as f64;
    // Infinity is not below.
    (ns.abs() < i64::MAX as f64).then_some(ns as i64)
}

fn read_date(text: &str) -> Option<i64> {
    if let Some(ns) = parse_rfc3339_ns(text) {
        return Some(ns);
    }
    let (day, clock) = (text.get(..10)?, text.get(10..)?);
    if clock.is_empty() {
        return parse_rfc3339_ns(&format!("{day}T00:00:00Z"));
    }
    let clock = clock.strip_prefix(['T', 't', ' '])?.replace(',', ".");
    let zone_at = clock.find(['Z', 'z', '+', '-']).unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(zone_at);
    let clock = clock.trim_end();
    let zone = match zone.len() {
        0 | 1 => "Z".to_owned(),
        3 => format!("{zone}:00"),
        5 => format!("{}:{}", &zone[..3], &zone[3..]),
        _ => zone.to_owned(),
    };
    if zone == "Z" && zone_at < text.len() && text.ends_with(['+', '-']) {
        return None;
    }
    parse_rfc3339_ns(&format!("{day}T{clock}{zone}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_the_unit_of_their_size() {
        for (text, ns) in [
            ("1700000000", 1_700_000_000_000_000_000),
            ("1700000000.5", 1_700_000_000_500_000_000),
            ("1700000000.123456789", 1_700_000_000_123_456_789),
            ("1700000000.1234567891", 1_700_000_000_123_456_789),
            ("1700000000123", 1_700_000_000_123_000_000),
            ("1700000000123.25", 1_700_000_000_123_250_000),
            ("1700000000123456", 1_700_000_000_123_456_000),
            ("1700000000123456789", 1_700_000_000_123_456_789),
            ("1.7e9", 1_700_000_000_000_000_000),
            ("1.7E12", 1_700_000_000_000_000_000),
            ("-1", -1_000_000_000),
            ("0", 0),
        ] {
            assert_eq!(read_time_ns(text.as_bytes()), Some(ns), "{text}");
        }
    }

    #[test]
    fn dates_are_read_in_the_forms_that_programs_write() {
        const NS: i64 = 1_764_039_600_000_000_000;
        for (text, more_ns) in [
            ("2025-11-25T03:00:00Z", 0),
            ("2025-11-25T03:00:00", 0),
            ("2025-11-25 03:00:00", 0),
            ("2025-11-25 03:00:00,25", 250_000_000),
            ("2025-11-25T03:00:00.000000001", 1),
            ("2025-11-25T04:00:00+01:00", 0),
            ("2025-11-25T04:00:00.5+0100", 500_000_000),
            ("2025-11-25 04:00:00 +01", 0),
            ("2025-11-25", -3 * 3_600_000_000_000),
            (" 2025-11-25T03:00:00Z ", 0),
        ] {
            assert_eq!(read_time_ns(text.as_bytes()), Some(NS + more_ns), "{text}");
        }
    }

    #[test]
    fn anything_else_is_no_time() {
        for text in [
            "",
            "-",
            ".5",
            "1.2.3",
            "yesterday",
            "3ms",
            "99999999999999999999",
            "1e400",
            "e",
            "NaN",
            "2025-13-25",
            "2025-11-25T",
            "2025-11-25T03",
            "2025-11-25T03:00:00+",
            "2025-11-25 x",
            "{}",
            "\u{e9}2025-11-25",
        ] {
            assert_eq!(read_time_ns(text.as_bytes()), None, "{text}");
        }
        assert_eq!(read_time_ns(b"\xff"), None);
    }
}
