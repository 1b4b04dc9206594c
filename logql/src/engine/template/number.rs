//! Numeric constants of templates, and integers with Go's base prefixes.

use super::ast::Number;
use super::lexed_text;
use logsvc_proto::go::float::parse_float;
use logsvc_proto::go::quote::quoted_bytes;
use logsvc_proto::go::unquote::unescape;

/// Reads a character constant such as `'a'`; `text` includes the quotes.
///
/// # Errors
/// Go's message.
pub(super) fn character(text: &[u8]) -> Result<Number, String> {
    let text = lexed_text(text);
    let inside = &text[1..text.len() - 1];
    let bytes = unescape(inside, b'\'').map_err(|_| "invalid syntax")?;
    let is_byte_escape = inside.starts_with("\\x")
        || inside.starts_with('\\') && inside[1..].starts_with(|c: char| c.is_digit(8));
    let decoded = String::from_utf8_lossy(&bytes);
    let mut characters = decoded.chars();
    let (first, more) = (characters.next(), characters.next().is_some());
    let code = match (first, more) {
        (Some(_), false) if is_byte_escape && bytes.len() == 1 => u32::from(bytes[0]),
        (Some(c), false) => c as u32,
        (None, _) => return Err("invalid syntax".to_owned()),
        (Some(_), true) => return Err(format!("malformed character constant: {text}")),
    };
    Ok(Number {
        text: text.into_owned(),
        int: Some(i64::from(code)),
        float: Some(f64::from(code)),
        complex: None,
        is_float: false,
    })
}

/// Reads a sum of a real and an imaginary number, such as `1+2i`.
///
/// # Errors
/// Go's message.
pub(super) fn complex(text: &[u8]) -> Result<Number, String> {
    let text = lexed_text(text);
    let syntax = || "syntax error scanning complex number".to_owned();
    let (real, rest) = float_prefix(&text);
    // The sign belongs to the imaginary part.
    let sign_len = usize::from(rest.starts_with(['+', '-']));
    let (imaginary, end) = float_prefix(&rest[sign_len..]);
    if sign_len == 0 || imaginary.is_empty() || end != "i" {
        return Err(syntax());
    }
    let imaginary = &rest[..sign_len + imaginary.len()];
    Ok(of_parts(text.to_string(), parse_float(real)?, parse_float(imaginary)?))
}

/// The start of the text that is a float, as far as the characters tell, and the rest.
fn float_prefix(text: &str) -> (&str, &str) {
    let bytes = text.as_bytes();
    let mut len = 0;
    let accept = |len: &mut usize, set: &[u8]| {
        let accepted = bytes.get(*len).is_some_and(|b| set.contains(b));
        *len += usize::from(accepted);
        accepted
    };
    accept(&mut len, b"+-");
    let (mut digits, mut exponent): (&[u8], &[u8]) = (b"0123456789_", b"eEpP");
    if accept(&mut len, b"0") && accept(&mut len, b"xX") {
        (digits, exponent) = (b"0123456789abcdefABCDEF_", b"pP");
    }
    while accept(&mut len, digits) {}
    if accept(&mut len, b".") {
        while accept(&mut len, digits) {}
    }
    if accept(&mut len, exponent) {
        accept(&mut len, b"+-");
        while accept(&mut len, b"0123456789_") {}
    }
    text.split_at(len)
}

/// A complex constant. It has the kinds of its real part too if it has no imaginary part.
fn of_parts(text: String, real: f64, imaginary: f64) -> Number {
    let float = (imaginary == 0.0).then_some(real);
    Number {
        text,
        int: float.and_then(whole),
        float,
        complex: Some((real, imaginary)),
        is_float: false,
    }
}

/// The integer that a float is.
fn whole(value: f64) -> Option<i64> {
    let truncated = value as i64;
    // The bound is the first float beyond the range of integers.
    (truncated as f64 == value && value < 9_223_372_036_854_775_808.0).then_some(truncated)
}

/// Reads a number.
///
/// # Errors
/// Go's message.
pub(super) fn number(text: &[u8]) -> Result<Number, String> {
    let text = lexed_text(text);
    if let Some(imaginary) = text.strip_suffix('i')
        && let Ok(imaginary) = parse_float(imaginary)
    {
        return Ok(of_parts(text.into_owned(), 0.0, imaginary));
    }
    let looks_like_float = text.contains(['.', 'e', 'E', 'p', 'P']);
    let is_hex_int =
        text.len() > 2 && text[..2].eq_ignore_ascii_case("0x") && !text.contains(['p', 'P']);
    let mut int = parse_int(&text);
    let mut float = int.map(|value| value as f64);
    let overflows = int.is_none() && parse_uint(&text).is_some();
    if int.is_none() {
        match parse_float(&text) {
            Ok(value) if looks_like_float => {
                float = Some(value);
                int = whole(value);
            }
            Ok(_) if !overflows => {
                return Err(format!("integer overflow: {}", quoted_bytes(text.as_bytes())));
            }
            Ok(value) => float = Some(value),
            Err(_) if overflows => {}
            Err(_) => {
                return Err(format!("illegal number syntax: {}", quoted_bytes(text.as_bytes())));
            }
        }
    }
    let is_float = float.is_some() && looks_like_float && !is_hex_int;
    Ok(Number { text: text.into_owned(), int, float, complex: None, is_float })
}

/// Go's `strconv.ParseInt(text, 0, 64)`: sign, base prefix, and `_` between digits.
pub(super) fn parse_int(text: &str) -> Option<i64> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let value = parse_uint(unsigned)?;
    if negative { 0i64.checked_sub_unsigned(value) } else { i64::try_from(value).ok() }
}

/// Go's `strconv.ParseUint(text, 0, 64)`.
fn parse_uint(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let (base, digits, mut digit_before) = match bytes {
        [b'0', b'x' | b'X', rest @ ..] => (16, rest, true),
        [b'0', b'b' | b'B', rest @ ..] => (2, rest, true),
        [b'0', b'o' | b'O', rest @ ..] => (8, rest, true),
        [b'0', rest @ ..] if !rest.is_empty() => (8, rest, true),
        rest => (10, rest, false),
    };
    let mut value = 0u64;
    let mut any = false;
    for &byte in digits {
        if byte == b'_' {
            if !digit_before {
                return None;
            }
            digit_before = false;
            continue;
        }
        let digit = char::from(byte).to_digit(base)?;
        value = value.checked_mul(u64::from(base))?.checked_add(u64::from(digit))?;
        (digit_before, any) = (true, true);
    }
    (any && digit_before).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complex_constants_have_two_parts() {
        let of = |text: &str, read: fn(&[u8]) -> Result<Number, String>| {
            read(text.as_bytes()).map(|n| (n.complex, n.int, n.float))
        };
        for (text, imaginary) in
            [("1i", 1.0), ("-2.5i", -2.5), ("+1e3i", 1e3), ("1_0i", 10.0), ("0x1p4i", 16.0)]
        {
            assert_eq!(of(text, number), Ok((Some((0.0, imaginary)), None, None)), "{text}");
        }
        assert_eq!(of("0i", number), Ok((Some((0.0, 0.0)), Some(0), Some(0.0))));
        for text in ["1e400i", "0x10i", "0b1i", "+i", "1__0i"] {
            assert_eq!(of(text, number), Err(format!("illegal number syntax: \"{text}\"")));
        }
        for (text, real, imaginary) in [
            ("1+2i", 1.0, 2.0),
            ("-1.5-0.5i", -1.5, -0.5),
            ("1e3+1e-3i", 1e3, 1e-3),
            ("0x1p4-0x1p-1i", 16.0, -0.5),
            (".5+.5i", 0.5, 0.5),
        ] {
            assert_eq!(of(text, complex), Ok((Some((real, imaginary)), None, None)), "{text}");
        }
        assert_eq!(of("7+0i", complex), Ok((Some((7.0, 0.0)), Some(7), Some(7.0))));
        assert_eq!(of("1.5-0i", complex), Ok((Some((1.5, 0.0)), None, Some(1.5))));
        for (text, message) in [
            ("1+i", "syntax error scanning complex number"),
            ("0b1+1i", "syntax error scanning complex number"),
            ("1e400+1i", "strconv.ParseFloat: parsing \"1e400\": value out of range"),
            ("1+1e400i", "strconv.ParseFloat: parsing \"+1e400\": value out of range"),
            ("-+2i", "strconv.ParseFloat: parsing \"-\": invalid syntax"),
        ] {
            assert_eq!(of(text, complex), Err(message.to_owned()), "{text}");
        }
    }

    #[test]
    fn integers_have_prefixes_and_separators() {
        for (text, value) in [
            ("0", 0),
            ("-7", -7),
            ("+7", 7),
            ("0x1F", 31),
            ("0b101", 5),
            ("0o17", 15),
            ("010", 8),
            ("1_000", 1000),
            ("0x_ff", 255),
            ("0_7", 7),
            ("-9223372036854775808", i64::MIN),
            ("9223372036854775807", i64::MAX),
        ] {
            assert_eq!(parse_int(text), Some(value), "{text}");
        }
        for text in
            ["", "-", "abc", "1e3", " 5", "08", "0x", "_1", "1_", "1__0", "9223372036854775808"]
        {
            assert_eq!(parse_int(text), None, "{text}");
        }
    }

    #[test]
    fn constants_know_whether_they_are_floats() {
        let of = |text: &str| number(text.as_bytes()).map(|n| (n.int, n.float, n.is_float));
        assert_eq!(of("1e3"), Ok((Some(1000), Some(1000.0), true)));
        assert_eq!(of("1.5"), Ok((None, Some(1.5), true)));
        assert_eq!(of("0x1F"), Ok((Some(31), Some(31.0), false)));
        assert_eq!(of("0xE"), Ok((Some(14), Some(14.0), false)));
        assert_eq!(of("0x1p4"), Ok((Some(16), Some(16.0), true)));
        assert_eq!(of("100000000000000000000.0"), Ok((None, Some(1e20), true)));
        assert_eq!(of("9223372036854775808"), Ok((None, Some(9_223_372_036_854_775_808.0), false)));
        assert_eq!(
            of("99999999999999999999"),
            Err("integer overflow: \"99999999999999999999\"".into())
        );
        assert_eq!(of("+"), Err("illegal number syntax: \"+\"".into()));
        assert_eq!(of("1_"), Err("illegal number syntax: \"1_\"".into()));
        let code = |text: &str| character(text.as_bytes()).map(|n| n.int);
        assert_eq!(code("'a'"), Ok(Some(97)));
        assert_eq!(code("'\u{2603}'"), Ok(Some(0x2603)));
        assert_eq!(code(r"'\n'"), Ok(Some(10)));
        assert_eq!(code(r"'\xff'"), Ok(Some(255)));
        assert_eq!(code("'ab'"), Err("malformed character constant: 'ab'".into()));
        assert_eq!(code("''"), Err("invalid syntax".into()));
    }
}
