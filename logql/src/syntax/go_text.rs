//! Quoting and unquoting of strings in Go's manner.

use std::fmt::Write;
use std::sync::LazyLock;

use regex::Regex;

/// What Go's `strconv` leaves unescaped: letters, marks, numbers, punctuation and
/// symbols. (The ASCII space, which also counts, is handled before.)
static PRINTABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^[\pL\pM\pN\pP\pS]$").expect("the pattern is valid"));
static LETTER: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\pL$").expect("the pattern is valid"));
static DIGIT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^\p{Nd}$").expect("the pattern is valid"));

fn is_in(class: &Regex, c: char) -> bool {
    class.is_match(c.encode_utf8(&mut [0; 4]))
}

/// Whether the character can start an identifier.
pub(crate) fn is_ident_start(c: char) -> bool {
    c == '_' || if c.is_ascii() { c.is_ascii_alphabetic() } else { is_in(&LETTER, c) }
}

/// Whether the character can continue an identifier.
pub(crate) fn is_ident_char(c: char) -> bool {
    is_ident_start(c) || if c.is_ascii() { c.is_ascii_digit() } else { is_in(&DIGIT, c) }
}

/// Appends the text in double quotes, escaped like Go's `strconv.Quote`.
pub fn quote_into(out: &mut String, text: &[u8]) {
    out.push('"');
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            push_escaped(out, c);
        }
        for byte in chunk.invalid() {
            write!(out, "\\x{byte:02x}").expect("writing to a String succeeds");
        }
    }
    out.push('"');
}

fn push_escaped(out: &mut String, c: char) {
    match c {
        '"' => out.push_str("\\\""),
        '\\' => out.push_str("\\\\"),
        ' '..='~' => out.push(c),
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        c if c.is_ascii() => write_code(out, 'x', 2, c),
        c if is_in(&PRINTABLE, c) => out.push(c),
        c if c <= '\u{ffff}' => write_code(out, 'u', 4, c),
        c => write_code(out, 'U', 8, c),
    }
}

fn write_code(out: &mut String, letter: char, width: usize, c: char) {
    write!(out, "\\{letter}{:0width$x}", c as u32).expect("writing to a String succeeds");
}

/// The text in double quotes, escaped like Go's `strconv.Quote`.
#[must_use]
pub fn quote(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote_into(&mut out, text);
    out
}

/// Decodes the inside of a quoted literal that was delimited by `quote`. `None`
/// when it holds an escape that does not exist.
pub(crate) fn unescape(inside: &str, quote: char) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(inside.len());
    let mut rest = inside.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            continue;
        }
        let c = rest.next()?;
        let byte = match c {
            'a' => 7,
            'b' => 8,
            'f' => 12,
            'n' => b'\n',
            'r' => b'\r',
            't' => b'\t',
            'v' => 11,
            '\\' => b'\\',
            c if c == quote => c as u8,
            '0'..='7' => {
                let mut value = c.to_digit(8)?;
                for _ in 0..2 {
                    value = value * 8 + rest.next()?.to_digit(8)?;
                }
                u8::try_from(value).ok()?
            }
            'x' => u8::try_from(hex(&mut rest, 2)?).ok()?,
            'u' | 'U' => {
                let value = hex(&mut rest, if c == 'u' { 4 } else { 8 })?;
                let c = char::from_u32(value)?;
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                continue;
            }
            _ => return None,
        };
        out.push(byte);
    }
    Some(out)
}

fn hex(rest: &mut std::str::Chars<'_>, digits: u32) -> Option<u32> {
    (0..digits)
        .try_fold(0u32, |value, _| value.checked_mul(16)?.checked_add(rest.next()?.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_follows_go() {
        for (text, quoted) in [
            (&b"plain"[..], r#""plain""#),
            (b"a\"b\\c", r#""a\"b\\c""#),
            (b"\x07\x08\x0c\n\r\t\x0b", r#""\a\b\f\n\r\t\v""#),
            (b"\x00\x1b\x7f", r#""\x00\x1b\x7f""#),
            ("ünï ✓ 🚀".as_bytes(), "\"ünï ✓ 🚀\""),
            ("\u{a0}\u{200b}\u{2028}".as_bytes(), r#""\u00a0\u200b\u2028""#),
            ("\u{e0001}".as_bytes(), r#""\U000e0001""#),
            (b"a\xffb\xc3", r#""a\xffb\xc3""#),
        ] {
            assert_eq!(quote(text), quoted);
            assert_eq!(unescape(&quoted[1..quoted.len() - 1], '"').as_deref(), Some(text));
        }
    }

    #[test]
    fn bad_escapes() {
        for inside in [r"\q", r"\'", r"\400", r"\08", r"\x1", r"\u12", r"\ud800", r"\U00110000"] {
            assert_eq!(unescape(inside, '"'), None, "{inside}");
        }
        assert_eq!(unescape(r"\101\x41\u0041\U00000041", '"').as_deref(), Some(&b"AAAA"[..]));
    }

    #[test]
    fn identifiers_are_letters_and_decimal_digits() {
        assert!(is_ident_start('é') && is_ident_start('_') && is_ident_start('字'));
        assert!(!is_ident_start('1') && !is_ident_start('\u{a0}') && !is_ident_start('Ⅷ'));
        assert!(is_ident_char('٣') && !is_ident_char('-') && !is_ident_char('½'));
    }
}
