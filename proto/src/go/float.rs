//! Floating point numbers as Go programs read and write them.

use super::quote::quoted;

/// Reads a number like Go's `strconv.ParseFloat(text, 64)`: optional sign,
/// decimal with `_` between digits, hexadecimal with a `p` exponent, `inf`,
/// `infinity` or `nan` in any case.
///
/// # Errors
/// Go's message, `strconv.ParseFloat: parsing "x": invalid syntax` (or
/// `value out of range`).
pub fn parse_float(text: &str) -> Result<f64, String> {
    let fail = |problem| Err(format!("strconv.ParseFloat: parsing {}: {problem}", quoted(text)));
    let Some(value) = read_float(text) else { return fail("invalid syntax") };
    let unsigned = text.trim_start_matches(['+', '-']);
    if value.is_infinite() && !unsigned.starts_with(['i', 'I']) {
        return fail("value out of range");
    }
    Ok(value)
}

fn read_float(text: &str) -> Option<f64> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'+' => (false, &text[1..]),
        b'-' => (true, &text[1..]),
        _ => (false, text),
    };
    let sign = if negative { -1.0 } else { 1.0 };
    if unsigned.eq_ignore_ascii_case("inf") || unsigned.eq_ignore_ascii_case("infinity") {
        return Some(sign * f64::INFINITY);
    }
    if text.eq_ignore_ascii_case("nan") {
        return Some(f64::NAN);
    }
    let hex_digits =
        unsigned.strip_prefix("0x").or(unsigned.strip_prefix("0X")).filter(|d| !d.is_empty());
    let (hex, digits) = (hex_digits.is_some(), hex_digits.unwrap_or(unsigned));
    let without_separators;
    let plain = if digits.contains('_') {
        if !separators_are_between_digits(digits, hex) {
            return None;
        }
        without_separators = digits.replace('_', "");
        &without_separators
    } else {
        digits
    };
    if hex {
        return Some(sign * read_hex_float(plain)?);
    }
    let (mantissa, exponent) = match plain.find(['e', 'E']) {
        Some(at) => (&plain[..at], Some(&plain[at + 1..])),
        None => (plain, None),
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_is_valid = (is_number(whole) || is_number(fraction))
        && (whole.is_empty() || is_number(whole))
        && (fraction.is_empty() || is_number(fraction));
    let exponent_is_valid =
        exponent.is_none_or(|text| is_number(text.strip_prefix(['+', '-']).unwrap_or(text)));
    if !mantissa_is_valid || !exponent_is_valid {
        return None;
    }
    Some(sign * plain.parse::<f64>().ok()?)
}

/// Underscores stand between digits, or right after a base prefix.
fn separators_are_between_digits(digits: &str, after_prefix: bool) -> bool {
    let bytes = digits.as_bytes();
    let is_digit = |b: Option<&u8>| {
        b.is_some_and(|b| if after_prefix { b.is_ascii_hexdigit() } else { b.is_ascii_digit() })
    };
    bytes.iter().enumerate().filter(|(_, b)| **b == b'_').all(|(i, _)| {
        let before = if i == 0 { after_prefix } else { is_digit(bytes.get(i - 1)) };
        before && is_digit(bytes.get(i + 1))
    })
}

/// A hexadecimal mantissa with a mandatory binary exponent, rounded to nearest,
/// ties to even.
fn read_hex_float(text: &str) -> Option<f64> {
    let at = text.find(['p', 'P'])?;
    let (mantissa, exponent) = (&text[..at], &text[at + 1..]);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    // Exponents beyond this are out of range whatever the mantissa's length.
    let mut exponent = exponent.parse::<i64>().unwrap_or(i64::MAX >> 8);
    if digits.len() > 15 {
        exponent = if text[at + 1..].starts_with('-') { -(1 << 50) } else { 1 << 50 };
    }
    let mut bits = 0u64;
    let mut sticky = false;
    for (i, c) in whole.chars().chain(fraction.chars()).enumerate() {
        let digit = c.to_digit(16)?;
        if bits >> 59 == 0 {
            bits = bits << 4 | u64::from(digit);
        } else {
            sticky |= digit != 0;
            exponent += 4;
        }
        if i >= whole.len() {
            exponent -= 4;
        }
    }
    if bits == 0 {
        return Some(0.0);
    }
    // The value is bits * 2^exponent. Keep 53 bits, fewer for subnormal numbers.
    let top = exponent + 64 - i64::from(bits.leading_zeros());
    if top > 1024 {
        return Some(f64::INFINITY);
    }
    if top < -1080 {
        return Some(0.0);
    }
    let lowest = (top - 53).max(-1074);
    let shift = lowest - exponent;
    let mut kept = bits;
    if shift > 0 {
        let shift = u32::try_from(shift.min(127)).ok()?;
        let wide = u128::from(bits) << 1 | u128::from(sticky);
        let (quotient, remainder) = (wide >> (shift + 1), wide & ((1u128 << (shift + 1)) - 1));
        let half = 1u128 << shift;
        kept = u64::try_from(quotient).ok()?;
        if remainder > half || (remainder == half && kept & 1 == 1) {
            kept += 1;
        }
        exponent = lowest;
    }
    // Both factors are exact, and so is the product unless it overflows.
    let low = exponent.max(-1000);
    Some(kept as f64 * pow2(low) * pow2(exponent - low))
}

fn pow2(exponent: i64) -> f64 {
    2f64.powi(i32::try_from(exponent).unwrap_or(if exponent < 0 { -2000 } else { 2000 }))
}

/// A number like Go's `%v`: shortest digits, with an exponent below 1e-4 and from 1e6 on.
#[must_use]
pub fn print_float(value: f64) -> String {
    format_float(value, 'g', None)
}

/// Digits after which a float has nothing but zeros.
const MAX_FLOAT_DIGITS: usize = 1100;

/// Go's `strconv.FormatFloat` for 64 bits; `format` is one of `feEgGbxX`, and `None` is the
/// shortest precision.
#[must_use]
pub fn format_float(value: f64, format: char, precision: Option<usize>) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let magnitude = value.abs();
    let text = match format {
        'f' => plain(magnitude, precision),
        'e' | 'E' => scientific(magnitude, precision, format),
        'b' => binary(magnitude),
        'x' | 'X' => hexadecimal(magnitude, precision, format),
        _ => general(magnitude, precision, format),
    };
    format!("{sign}{text}")
}

fn plain(value: f64, precision: Option<usize>) -> String {
    let Some(precision) = precision else { return format!("{value}") };
    let exact = precision.min(MAX_FLOAT_DIGITS);
    let mut text = format!("{value:.exact$}");
    text.extend(std::iter::repeat_n('0', precision - exact));
    text
}

/// Digits with one in front of the point, and the exponent.
fn digits_of(value: f64, precision: Option<usize>) -> (String, i32) {
    let text = match precision {
        None => format!("{value:e}"),
        Some(precision) => {
            let exact = precision.min(MAX_FLOAT_DIGITS);
            format!("{value:.exact$e}")
        }
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.replace('.', ""), exponent.parse().unwrap_or(0))
}

fn with_exponent(digits: &str, exponent: i32, letter: char) -> String {
    let (first, rest) = digits.split_at(1);
    let point = if rest.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{first}{point}{rest}{letter}{sign}{:02}", exponent.abs())
}

fn scientific(value: f64, precision: Option<usize>, letter: char) -> String {
    let (mut digits, exponent) = digits_of(value, precision);
    if let Some(precision) = precision {
        let missing = (precision + 1).saturating_sub(digits.len());
        digits.extend(std::iter::repeat_n('0', missing));
    }
    with_exponent(&digits, exponent, letter)
}

/// `%g`: an exponent below 1e-4 and from 10^precision on (10^6 for the shortest
/// form, or as many digits as an integer has), without trailing zeros.
fn general(value: f64, precision: Option<usize>, format: char) -> String {
    let wanted = precision.map(|precision| precision.max(1));
    let (digits, exponent) = digits_of(value, wanted.map(|digits| digits - 1));
    let trimmed = digits.trim_end_matches('0');
    let digits = if trimmed.is_empty() { "0" } else { trimmed };
    let mut limit = wanted.map_or(6, |wanted| i32::try_from(wanted).unwrap_or(i32::MAX));
    let len = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    if wanted.is_some() && limit > len && len > exponent {
        limit = len;
    }
    if value != 0.0 && (exponent < -4 || exponent >= limit) {
        let letter = if format == 'G' { 'E' } else { 'e' };
        return with_exponent(digits, exponent, letter);
    }
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or(0));
    if exponent < 0 {
        return format!("0.{}{digits}", zeros(-exponent - 1));
    }
    let whole = exponent + 1;
    if len <= whole {
        return format!("{digits}{}", zeros(whole - len));
    }
    let (whole, fraction) = digits.split_at(usize::try_from(whole).unwrap_or(0));
    format!("{whole}.{fraction}")
}

/// Mantissa and exponent of a float as integers: `value = mantissa * 2^exponent`.
fn parts(value: f64) -> (u64, i32) {
    let bits = value.to_bits();
    let fraction = bits & ((1 << 52) - 1);
    let exponent = i32::try_from(bits >> 52 & 0x7ff).expect("11 bits");
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

/// `%b`: `4503599627370496p-52`
fn binary(value: f64) -> String {
    let (mantissa, exponent) = parts(value);
    format!("{mantissa}p{exponent:+}")
}

/// `%x`: `0x1.8p+01`
fn hexadecimal(value: f64, precision: Option<usize>, format: char) -> String {
    let (mut mantissa, mut exponent) = parts(value);
    if mantissa == 0 {
        exponent = 0;
    } else {
        // One bit in front of the point and 60 behind it.
        let shift = mantissa.leading_zeros() - 3;
        mantissa <<= shift;
        exponent += 60 - i32::try_from(shift).expect("less than 64");
    }
    if let Some(precision) = precision.filter(|precision| *precision < 15) {
        let dropped = 60 - 4 * precision;
        let half = 1u64 << (dropped - 1);
        let rest = mantissa & ((1 << dropped) - 1);
        mantissa >>= dropped;
        if rest > half || (rest == half && mantissa & 1 == 1) {
            mantissa += 1;
        }
        mantissa <<= dropped;
        if mantissa >> 61 != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let mut fraction = format!("{:015x}", mantissa & ((1 << 60) - 1));
    match precision {
        None => fraction.truncate(fraction.trim_end_matches('0').len()),
        Some(precision) => {
            fraction.truncate(precision);
            fraction.extend(std::iter::repeat_n('0', precision - fraction.len()));
        }
    }
    let point = if fraction.is_empty() { "" } else { "." };
    let sign = if exponent < 0 { '-' } else { '+' };
    let text = format!("0x{}{point}{fraction}p{sign}{:02}", mantissa >> 60, exponent.abs());
    if format == 'X' { text.to_uppercase() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats() {
        for (text, value) in [
            ("1_000", 1000.0),
            ("017", 17.0),
            ("1.", 1.0),
            (".5", 0.5),
            ("-1E-3", -0.001),
            ("0x1p4", 16.0),
            ("0x1_0p0", 16.0),
            ("0x.8p1", 1.0),
            ("-0x1.8p1", -3.0),
            ("0x1p-1074", 5e-324),
            ("0x1.8p-1074", 1e-323),
            ("0x1p-1076", 0.0),
            ("0x1.fffffffffffff8p0", 2.0),
            ("0x1.00000000000008p0", 1.0),
            ("0x1.000000000000080000001p0", 1.0000000000000002),
            ("0x123456789abcdef0123p0", 0x123456789abcdef0123u128 as f64),
            ("0x1.fffffffffffffp1023", f64::MAX),
            ("Inf", f64::INFINITY),
            ("-infinity", f64::NEG_INFINITY),
        ] {
            assert_eq!(parse_float(text), Ok(value), "{text}");
        }
        assert!(parse_float("nAn").is_ok_and(f64::is_nan));
        for text in [
            "", "abc", " 5", "1e", "1__0", "_1", "1_", "0x10", "0xp1", "+nan", "1e+", ".", "0x",
            "é", "\u{fffd}", "-é1",
        ] {
            assert_eq!(
                parse_float(text),
                Err(format!("strconv.ParseFloat: parsing \"{text}\": invalid syntax"))
            );
        }
        for text in
            ["1e400", "-1e400", "0x1p1024", "0x1.fffffffffffff8p1023", "0x1p99999999999999999999"]
        {
            assert_eq!(
                parse_float(text),
                Err(format!("strconv.ParseFloat: parsing \"{text}\": value out of range"))
            );
        }
    }

    #[test]
    fn printed_literals() {
        for (value, printed) in [
            (25.0, "25"),
            (1e6, "1e+06"),
            (123_456.0, "123456"),
            (123_456_789.0, "1.23456789e+08"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-1.5, "-1.5"),
            (0.0, "0"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(print_float(value), printed);
        }
    }
}
