//! Sizes, durations and points in time as they are written on the command line and in reports.
//! Every parser names the text that it could not read, and never guesses.

use std::time::{SystemTime, UNIX_EPOCH};

/// Reads a number of bytes: `4096`, `512KB` (decimal), `8MiB` (binary), `1.5GB`.
pub(crate) fn parse_size_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text)?;
    let factor = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "t" | "tb" => 1e12,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(format!("unknown unit {unit:?} in size {text:?}")),
    };
    whole(number * factor, text)
}

/// Reads a duration made of parts such as `1h30m`, `250ms` or `1.5s`; the result
/// is in nanoseconds. A bare number is refused, because its unit would be a guess.
pub(crate) fn parse_duration_nanos(text: &str) -> Result<u64, String> {
    let mut rest = text;
    let mut total = 0.0;
    if rest.is_empty() {
        return Err("empty duration".to_owned());
    }
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let unit_end = rest[number_end..]
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .map_or(rest.len(), |at| number_end + at);
        let number: f64 = rest[..number_end]
            .parse()
            .map_err(|_| format!("expected a number at {rest:?} in duration {text:?}"))?;
        let nanos_per_unit = match &rest[number_end..unit_end] {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            "d" => 86_400e9,
            unit => return Err(format!("unknown unit {unit:?} in duration {text:?}")),
        };
        total += number * nanos_per_unit;
        rest = &rest[unit_end..];
    }
    whole(total, text)
}

/// A point in time given as an integer (seconds up to ten characters, nanoseconds
/// beyond, as the query API reads them) or relative to `now_nanos`: `now`,
/// `now-6h`. Nanoseconds since the Unix epoch.
pub(crate) fn parse_instant_nanos(text: &str, now_nanos: i64) -> Result<i64, String> {
    if let Some(offset) = text.strip_prefix("now") {
        return match offset.split_at_checked(1) {
            None => Ok(now_nanos),
            Some(("-", duration)) => {
                Ok(now_nanos.saturating_sub_unsigned(parse_duration_nanos(duration)?))
            }
            Some(("+", duration)) => {
                Ok(now_nanos.saturating_add_unsigned(parse_duration_nanos(duration)?))
            }
            Some(_) => Err(format!("expected now, now-DURATION or now+DURATION, got {text:?}")),
        };
    }
    let number: i64 = text.parse().map_err(|_| format!("{text:?} is not a point in time"))?;
    if text.len() <= 10 {
        number.checked_mul(1_000_000_000).ok_or_else(|| format!("{text:?} is out of range"))
    } else {
        Ok(number)
    }
}

/// The wall clock, in nanoseconds since the Unix epoch.
pub(crate) fn unix_now_nanos() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}

fn split_unit(text: &str) -> Result<(f64, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number =
        text[..end].parse().map_err(|_| format!("expected a number at the start of {text:?}"))?;
    Ok((number, text[end..].trim()))
}

fn whole(value: f64, text: &str) -> Result<u64, String> {
    // 2^63 keeps every result usable as a signed number too.
    if value.is_finite() && (0.0..9.2e18).contains(&value) {
        Ok(value.round() as u64)
    } else {
        Err(format!("{text:?} is out of range"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("512KB", 512_000),
            ("8MiB", 8 << 20),
            ("1.5GB", 1_500_000_000),
        ] {
            assert_eq!(parse_size_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "KB", "1 parsec", "-1", "1e9", "99999999999999999999GB"] {
            assert!(parse_size_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations() {
        for (text, nanos) in [
            ("1ns", 1),
            ("250ms", 250_000_000),
            ("1h30m", 5_400_000_000_000),
            ("1.5s", 1_500_000_000),
        ] {
            assert_eq!(parse_duration_nanos(text), Ok(nanos), "{text}");
        }
        for text in ["", "5", "h", "1x", "1h30", "-1s"] {
            assert!(parse_duration_nanos(text).is_err(), "{text}");
        }
    }

    #[test]
    fn instants() {
        let now = 1_800_000_000_000_000_000;
        for (text, nanos) in [
            ("now", now),
            ("now-1s", now - 1_000_000_000),
            ("now+2m", now + 120_000_000_000),
            ("1700000000", 1_700_000_000_000_000_000),
            ("1700000000000000001", 1_700_000_000_000_000_001),
        ] {
            assert_eq!(parse_instant_nanos(text, now), Ok(nanos), "{text}");
        }
        for text in ["", "later", "now*2s", "now-", "9999999999"] {
            assert!(parse_instant_nanos(text, now).is_err(), "{text}");
        }
    }
}
