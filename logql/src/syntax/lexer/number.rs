//! Numbers, durations and byte sizes.

use super::Kind;
use logsvc_proto::go::duration::{parse_go_duration_ns, parse_model_duration_ns};
use logsvc_proto::go::size::parse_query_bytes;

/// Cuts a number, a duration or a byte size off the start of the text, which
/// begins with a digit or with a point and a digit. Returns its length in bytes.
///
/// # Errors
/// The message for a malformed number.
pub(super) fn scan(rest: &str) -> Result<(Kind, usize), String> {
    let number_len = scan_number(rest)?;
    let duration_len = number_len + duration_run_len(&rest[number_len..]);
    if duration_len > number_len {
        let text = &rest[..duration_len];
        if let Ok(ns) = parse_model_duration_ns(text).or_else(|_| parse_go_duration_ns(text)) {
            return Ok((Kind::Duration(ns), duration_len));
        }
    }
    let is_byte_char = |b: &u8| b.is_ascii_digit() || b"BikKMGTP.".contains(b);
    let bytes_len =
        number_len + rest.as_bytes()[number_len..].iter().take_while(|b| is_byte_char(b)).count();
    if bytes_len > number_len
        && let Some(bytes) = parse_query_bytes(&rest[..bytes_len])
    {
        return Ok((Kind::Bytes(bytes), bytes_len));
    }
    Ok((Kind::Number, number_len))
}

/// Length in bytes of the run of characters that can continue a duration.
pub(super) fn duration_run_len(rest: &str) -> usize {
    rest.find(|c: char| !c.is_ascii_digit() && !"nu\u{b5}mshdwy.".contains(c)).unwrap_or(rest.len())
}

/// Base of a number: the digits it allows, and its name in messages.
#[derive(Clone, Copy, PartialEq)]
enum Base {
    Decimal,
    Hexadecimal,
    /// Written with `0o`.
    Octal,
    /// Written with a leading zero, hence decimal if it turns out to be a float.
    LeadingZero,
    Binary,
}

impl Base {
    fn name(self) -> &'static str {
        match self {
            Self::Decimal => "decimal literal",
            Self::Hexadecimal => "hexadecimal literal",
            Self::Octal | Self::LeadingZero => "octal literal",
            Self::Binary => "binary literal",
        }
    }

    fn radix(self) -> u32 {
        match self {
            Self::Decimal => 10,
            Self::Hexadecimal => 16,
            Self::Octal | Self::LeadingZero => 8,
            Self::Binary => 2,
        }
    }
}

/// Length in bytes of a number, following the scanner of the Go language. Two
/// differences let byte sizes be written: `0B` is not a binary prefix, and `p` is
/// an exponent only in hexadecimal numbers.
fn scan_number(rest: &str) -> Result<usize, String> {
    let bytes = rest.as_bytes();
    let at = |i: usize| bytes.get(i).copied().unwrap_or(0);
    let (base, mut pos) = match (at(0), at(1)) {
        (b'0', b'x' | b'X') => (Base::Hexadecimal, 2),
        (b'0', b'o' | b'O') => (Base::Octal, 2),
        (b'0', b'b') if at(2).is_ascii_digit() => (Base::Binary, 2),
        (b'0', _) => (Base::LeadingZero, 1),
        _ => (Base::Decimal, 0),
    };
    let mut has_digit = base == Base::LeadingZero;
    let mut invalid = None;
    let mut digits = |pos: &mut usize| {
        loop {
            let b = at(*pos);
            if b == b'_' {
                *pos += 1;
                continue;
            }
            let is_digit =
                if base == Base::Hexadecimal { b.is_ascii_hexdigit() } else { b.is_ascii_digit() };
            if !is_digit {
                break;
            }
            has_digit = true;
            if invalid.is_none() && !char::from(b).is_digit(base.radix()) {
                invalid = Some(char::from(b));
            }
            *pos += 1;
        }
    };
    digits(&mut pos);
    let mut is_float = false;
    if at(pos) == b'.' {
        is_float = true;
        if matches!(base, Base::Octal | Base::Binary) {
            return Err(format!("invalid radix point in {}", base.name()));
        }
        pos += 1;
        digits(&mut pos);
    }
    if !has_digit {
        return Err(format!("{} has no digits", base.name()));
    }
    let exponent = match at(pos) {
        b @ (b'e' | b'E') if !matches!(base, Base::Decimal | Base::LeadingZero) => {
            return Err(format!("'{}' exponent requires decimal mantissa", char::from(b)));
        }
        b'e' | b'E' => true,
        b'p' | b'P' => base == Base::Hexadecimal,
        _ => false,
    };
    if exponent {
        is_float = true;
        pos += 1;
        if matches!(at(pos), b'+' | b'-') {
            pos += 1;
        }
        let start = pos;
        while at(pos).is_ascii_digit() || at(pos) == b'_' {
            pos += 1;
        }
        if !bytes[start..pos].iter().any(u8::is_ascii_digit) {
            return Err("exponent has no digits".to_owned());
        }
    } else if base == Base::Hexadecimal && is_float {
        return Err("hexadecimal mantissa requires a 'p' exponent".to_owned());
    }
    match invalid {
        Some(digit) if !is_float => Err(format!("invalid digit '{digit}' in {}", base.name())),
        _ => Ok(pos),
    }
}
