//! Label values as numbers, with the messages of Loki's conversions.

use logsvc_proto::go::duration::parse_go_duration_ns;
use logsvc_proto::go::float::parse_float;
use logsvc_proto::go::size::parse_humanized_bytes;

/// Bytes that reading a value may take: copies of it, and a message that quotes it.
pub(crate) fn spare_bytes(value: &[u8]) -> usize {
    const QUOTED_FACTOR: usize = 12;
    // Short ones are not worth counting.
    if value.len() < 256 { 0 } else { value.len().saturating_mul(QUOTED_FACTOR) }
}

/// Reads a decimal float.
///
/// # Errors
/// `strconv.ParseFloat: parsing "x": invalid syntax`, or `value out of range`.
pub(crate) fn number(value: &[u8]) -> Result<f64, String> {
    match plain_number(value) {
        Some(number) => Ok(number),
        None => parse_float(&String::from_utf8_lossy(value)),
    }
}

/// The number of up to 15 digits with or without a point and a minus. Most numbers in
/// logs are like this. Digits and scale are exact as floats, so that the
/// quotient is the nearest one (W. Clinger, "How to read floating point numbers
/// accurately", 1990).
fn plain_number(value: &[u8]) -> Option<f64> {
    const MAX_DIGITS: usize = 15;
    const SCALES: [f64; MAX_DIGITS + 1] =
        [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let unsigned = value.strip_prefix(b"-").unwrap_or(value);
    if unsigned.len() > MAX_DIGITS + 1 {
        return None;
    }
    let (mut digits, mut count, mut scale) = (0u64, 0, None);
    for byte in unsigned {
        match byte {
            b'0'..=b'9' => {
                digits = digits * 10 + u64::from(byte - b'0');
                count += 1;
            }
            b'.' if scale.is_none() => scale = Some(count),
            _ => return None,
        }
    }
    if count == 0 || count > MAX_DIGITS {
        return None;
    }
    let magnitude = digits as f64 / SCALES[count - scale.unwrap_or(count)];
    Some(if unsigned.len() < value.len() { -magnitude } else { magnitude })
}

/// Reads a Go duration, in nanoseconds.
///
/// # Errors
/// `time: invalid duration "x"` and the like.
pub(crate) fn duration_ns(value: &[u8]) -> Result<i64, String> {
    parse_go_duration_ns(&String::from_utf8_lossy(value)).map_err(|error| error.to_string())
}

/// Reads a humanised byte size such as `1.5 KiB`, in bytes.
///
/// # Errors
/// As [`parse_humanized_bytes`].
pub(crate) fn bytes(value: &[u8]) -> Result<u64, String> {
    parse_humanized_bytes(&String::from_utf8_lossy(value))
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
    fn plain_numbers_are_read_like_all_others() {
        let mut rng = crate::testing::Rng::new(3);
        let mut plain = 0;
        for round in 0..20_000 {
            let len = rng.below(20);
            let mut text: String = (0..len)
                .map(|_| char::from(*rng.pick(b"0123456789012345678901234.-+e_")))
                .collect();
            if round % 2 == 0 {
                text = text.replace(['-', '+', 'e', '_'], "");
            }
            let Some(number) = plain_number(text.as_bytes()) else { continue };
            plain += 1;
            assert_eq!(parse_float(&text).map(f64::to_bits), Ok(number.to_bits()), "{text}");
        }
        assert!(plain > 2_000, "{plain} plain numbers");
        for text in ["", ".", "-", "-.", "1.2.3", "1e3", "+1", "1234567890123456", "--1", "1-"] {
            assert_eq!(plain_number(text.as_bytes()), None, "{text}");
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
