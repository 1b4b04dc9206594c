//! Quoted strings of the series syntax: `"..."` and `'...'` with Go's escapes,
//! and raw `` `...` ``.

use std::borrow::Cow;

use crate::labels::lexer::first_char;
use crate::labels::quote::write_go_char;

/// A string literal.
pub(super) struct QuotedText<'a> {
    /// With its quotes.
    pub(super) written: &'a str,
    /// Without quotes and escapes.
    pub(super) value: Cow<'a, str>,
}

const INVALID_UTF8: &str = "invalid UTF-8 rune";

/// Scans a raw string at the start of `text`, which begins with a back quote.
pub(super) fn scan_raw(text: &[u8]) -> Result<QuotedText<'_>, String> {
    let end = memchr::memchr(b'`', &text[1..]).map(|index| index + 1);
    let inside = std::str::from_utf8(&text[1..end.unwrap_or(text.len())])
        .map_err(|_| INVALID_UTF8.to_owned())?;
    let end = end.ok_or_else(|| "unterminated raw string".to_owned())?;
    let written = std::str::from_utf8(&text[..=end]).map_err(|_| INVALID_UTF8.to_owned())?;
    Ok(QuotedText { written, value: Cow::Borrowed(inside) })
}

/// Scans an interpreted string at the start of `text`, which begins with the
/// quote that ends it. A raw line break ends the attempt.
pub(super) fn scan_quoted(text: &[u8]) -> Result<QuotedText<'_>, String> {
    let quote = text[0];
    let mut position = 1;
    let mut unescaped: Option<Vec<u8>> = None;
    loop {
        let rest = &text[position..];
        let run = rest
            .iter()
            .position(|&byte| byte == quote || byte == b'\\' || byte == b'\n')
            .unwrap_or(rest.len());
        let plain = &rest[..run];
        if simdutf8::basic::from_utf8(plain).is_err() {
            return Err(INVALID_UTF8.to_owned());
        }
        position += run;
        match rest.get(run) {
            None | Some(b'\n') => return Err("unterminated quoted string".to_owned()),
            Some(b'\\') => {
                let out = unescaped.get_or_insert_default();
                out.extend_from_slice(plain);
                position += 1 + unescape(&text[position + 1..], quote, out)?;
            }
            Some(_) => {
                if let Some(out) = &mut unescaped {
                    out.extend_from_slice(plain);
                }
                break;
            }
        }
    }
    let utf8 = |_| INVALID_UTF8.to_owned();
    let written = std::str::from_utf8(&text[..=position]).map_err(utf8)?;
    let value = match unescaped {
        None => Cow::Borrowed(&written[1..written.len() - 1]),
        Some(bytes) => Cow::Owned(String::from_utf8(bytes).map_err(|_| INVALID_UTF8.to_owned())?),
    };
    Ok(QuotedText { written, value })
}

/// Undoes one escape, given what follows the backslash. Gives the bytes read.
fn unescape(text: &[u8], quote: u8, out: &mut Vec<u8>) -> Result<usize, String> {
    let not_terminated = || "escape sequence not terminated".to_owned();
    let &kind = text.first().ok_or_else(not_terminated)?;
    let (skip, digits, base) = match kind {
        b'a' => return push(out, 0x07),
        b'b' => return push(out, 0x08),
        b'f' => return push(out, 0x0c),
        b'n' => return push(out, b'\n'),
        b'r' => return push(out, b'\r'),
        b't' => return push(out, b'\t'),
        b'v' => return push(out, 0x0b),
        b'\\' => return push(out, b'\\'),
        _ if kind == quote => return push(out, quote),
        b'0'..=b'7' => (0, 3, 8),
        b'x' => (1, 2, 16),
        b'u' => (1, 4, 16),
        b'U' => (1, 8, 16),
        _ => return Err(format!("unknown escape sequence {}", code_point(text))),
    };
    let mut code = 0u32;
    for index in skip..skip + digits {
        let byte = *text.get(index).ok_or_else(not_terminated)?;
        let digit = char::from(byte).to_digit(base).ok_or_else(|| {
            format!("illegal character {} in escape sequence", code_point(&text[index..]))
        })?;
        code = code.wrapping_mul(base).wrapping_add(digit);
    }
    let invalid = || "escape sequence is an invalid Unicode code point".to_owned();
    if matches!(kind, b'u' | b'U') {
        let character = char::from_u32(code).ok_or_else(invalid)?;
        out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    } else {
        // Octal and `\x` escapes spell bytes.
        out.push(u8::try_from(code).map_err(|_| invalid())?);
    }
    Ok(skip + digits)
}

fn push(out: &mut Vec<u8>, byte: u8) -> Result<usize, String> {
    out.push(byte);
    Ok(1)
}

/// The first character as Go's `%#U` prints it: `U+0071 'q'`.
fn code_point(bytes: &[u8]) -> String {
    let character = first_char(bytes).unwrap_or(char::REPLACEMENT_CHARACTER);
    let mut quoted = Vec::new();
    write_go_char(character, &mut quoted);
    match quoted.get(1) {
        // A control character has no printed form.
        Some(b'\\') if !matches!(character, '\\' | '\'') => format!("U+{:04X}", character as u32),
        _ => format!("U+{:04X} '{character}'", character as u32),
    }
}
