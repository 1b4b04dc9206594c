//! Escapes in string and character literals of Go, and of the languages that took them over.

use std::fmt;

use super::quote::{code_point, first_char};

/// The fault of an invalid escape. The messages are taken from Prometheus' lexer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EscapeError {
    /// The text ends within it.
    #[error("escape sequence not terminated")]
    NotTerminated,
    /// No escape begins with this character.
    #[error("unknown escape sequence {}", CodePoint(*.0))]
    Unknown(char),
    /// A character that is no digit of its base.
    #[error("illegal character {} in escape sequence", CodePoint(*.0))]
    NotADigit(char),
    /// A number that is no byte, or no character.
    #[error("escape sequence is an invalid Unicode code point")]
    OutOfRange,
}

struct CodePoint(char);

impl fmt::Display for CodePoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&code_point(self.0))
    }
}

/// Undoes one escape, given the text behind the backslash, in a literal between two `quote`s.
/// Appends a byte for `\x41` and `\101`, else a character in UTF-8. Returns how many bytes of the
/// text belong to the escape.
///
/// # Errors
/// The text does not begin with an escape.
pub fn unescape_one(text: &[u8], quote: u8, out: &mut Vec<u8>) -> Result<usize, EscapeError> {
    let &kind = text.first().ok_or(EscapeError::NotTerminated)?;
    let short = match kind {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' => b'\\',
        _ if kind == quote => quote,
        _ => return unescape_number(kind, text, out),
    };
    out.push(short);
    Ok(1)
}

fn unescape_number(kind: u8, text: &[u8], out: &mut Vec<u8>) -> Result<usize, EscapeError> {
    let (skip, digits, base) = match kind {
        b'0'..=b'7' => (0, 3, 8),
        b'x' => (1, 2, 16),
        b'u' => (1, 4, 16),
        b'U' => (1, 8, 16),
        _ => {
            return Err(EscapeError::Unknown(
                first_char(text).unwrap_or(char::REPLACEMENT_CHARACTER),
            ));
        }
    };
    let mut code = 0u32;
    for index in skip..skip + digits {
        let byte = *text.get(index).ok_or(EscapeError::NotTerminated)?;
        let Some(digit) = char::from(byte).to_digit(base) else {
            let found = first_char(&text[index..]).unwrap_or(char::REPLACEMENT_CHARACTER);
            return Err(EscapeError::NotADigit(found));
        };
        // Eight hexadecimal digits fit.
        code = code * base + digit;
    }
    if matches!(kind, b'u' | b'U') {
        let character = char::from_u32(code).ok_or(EscapeError::OutOfRange)?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        out.push(u8::try_from(code).map_err(|_| EscapeError::OutOfRange)?);
    }
    Ok(skip + digits)
}

/// Decodes the inside of a literal between two `quote`s.
///
/// # Errors
/// It holds a backslash that begins no escape.
pub fn unescape(inside: &str, quote: u8) -> Result<Vec<u8>, EscapeError> {
    let mut out = Vec::with_capacity(inside.len());
    let mut rest = inside.as_bytes();
    while let Some(plain) = memchr::memchr(b'\\', rest) {
        out.extend_from_slice(&rest[..plain]);
        rest = &rest[plain + 1..];
        rest = &rest[unescape_one(rest, quote, &mut out)?..];
    }
    out.extend_from_slice(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::quote::quoted_bytes;
    use super::*;

    #[test]
    fn quoted_text_is_read_back() {
        for text in [
            &b"plain"[..],
            b"a\"b\\c",
            b"\x07\x08\x0c\n\r\t\x0b",
            b"\x00\x1b\x7f",
            "\u{a0}\u{200b}\u{2028}\u{e0001} \u{fc}".as_bytes(),
            b"a\xffb\xc3",
        ] {
            let quoted = quoted_bytes(text);
            assert_eq!(unescape(&quoted[1..quoted.len() - 1], b'"').as_deref(), Ok(text));
        }
        assert_eq!(unescape(r"\101\x41\u0041\U00000041", b'"').as_deref(), Ok(&b"AAAA"[..]));
    }

    #[test]
    fn bad_escapes_are_named() {
        for (inside, message) in [
            (r"\q", "unknown escape sequence U+0071 'q'"),
            (r"\'", "unknown escape sequence U+0027 '''"),
            (r"\400", "escape sequence is an invalid Unicode code point"),
            (r"\08", "illegal character U+0038 '8' in escape sequence"),
            (r"\x1", "escape sequence not terminated"),
            (r"\u12", "escape sequence not terminated"),
            (r"\ud800", "escape sequence is an invalid Unicode code point"),
            (r"\U00110000", "escape sequence is an invalid Unicode code point"),
            ("\\", "escape sequence not terminated"),
        ] {
            let error = unescape(inside, b'"').expect_err("a bad escape");
            assert_eq!(error.to_string(), message, "{inside}");
        }
    }
}
