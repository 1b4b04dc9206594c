//! Quoting of strings and characters the way Go's `%q` prints them, which
//! clients see in label sets, queries and error texts.
//!
//! Rules (Go language, package `strconv`): `\a \b \f \n \r \t \v \\ \"`, other
//! control characters below 0x80 as `\x1b`, characters that do not print as
//! `\u2028` or `\U000e0001`, bytes that are not UTF-8 as `\xff`.
//!
//! Package `time` quotes by a rule of its own, see [`quoted_by_time`].

/// A buffer that text is appended to.
pub trait Sink {
    /// Appends a text.
    fn push_text(&mut self, text: &str);
}

impl Sink for String {
    #[inline]
    fn push_text(&mut self, text: &str) {
        self.push_str(text);
    }
}

impl Sink for Vec<u8> {
    #[inline]
    fn push_text(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
    }
}

/// Appends `text` in double quotes.
pub fn write_quoted(text: &str, out: &mut impl Sink) {
    out.push_text("\"");
    write_escaped(text, '"', out);
    out.push_text("\"");
}

/// `text` in double quotes.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_quoted(text, &mut out);
    out
}

/// Appends `text` in double quotes; bytes that are not UTF-8 become `\xff`.
pub fn write_quoted_bytes(text: &[u8], out: &mut impl Sink) {
    out.push_text("\"");
    for chunk in text.utf8_chunks() {
        write_escaped(chunk.valid(), '"', out);
        for &byte in chunk.invalid() {
            write_hex("\\x", u32::from(byte), 2, out);
        }
    }
    out.push_text("\"");
}

/// `text` in double quotes; bytes that are not UTF-8 become `\xff`.
#[must_use]
pub fn quoted_bytes(text: &[u8]) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    write_quoted_bytes(text, &mut out);
    out
}

/// Appends `character` in single quotes, as `%q` prints a rune.
pub fn write_quoted_char(character: char, out: &mut impl Sink) {
    out.push_text("'");
    write_escaped(character.encode_utf8(&mut [0; 4]), '\'', out);
    out.push_text("'");
}

/// The code point, and the character if it prints, as `%#U` prints a rune: `U+0071 'q'`.
#[must_use]
pub fn code_point(character: char) -> String {
    let code = character as u32;
    if is_printable(character) {
        format!("U+{code:04X} '{character}'")
    } else {
        format!("U+{code:04X}")
    }
}

/// `text` in double quotes as package `time` writes it in its messages: every byte that is not
/// ASCII, and every control character but DEL, becomes `\xff`.
#[must_use]
pub fn quoted_by_time(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            0x20..=0x7f => out.push(char::from(byte)),
            _ => write_hex("\\x", u32::from(byte), 2, &mut out),
        }
    }
    out.push('"');
    out
}

fn write_escaped(text: &str, quote: char, out: &mut impl Sink) {
    let plain =
        |byte: u8| (0x20..0x7f).contains(&byte) && char::from(byte) != quote && byte != b'\\';
    let mut rest = text;
    loop {
        let run = rest.bytes().position(|byte| !plain(byte)).unwrap_or(rest.len());
        out.push_text(&rest[..run]);
        rest = &rest[run..];
        let Some(character) = rest.chars().next() else { return };
        write_char(character, quote, out);
        rest = &rest[character.len_utf8()..];
    }
}

fn write_char(character: char, quote: char, out: &mut impl Sink) {
    let code = character as u32;
    match character {
        '\x07' => out.push_text("\\a"),
        '\x08' => out.push_text("\\b"),
        '\x0c' => out.push_text("\\f"),
        '\n' => out.push_text("\\n"),
        '\r' => out.push_text("\\r"),
        '\t' => out.push_text("\\t"),
        '\x0b' => out.push_text("\\v"),
        '\\' => out.push_text("\\\\"),
        '"' if quote == '"' => out.push_text("\\\""),
        '\'' if quote == '\'' => out.push_text("\\'"),
        _ if is_printable(character) => out.push_text(character.encode_utf8(&mut [0; 4])),
        _ if code < 0x80 => write_hex("\\x", code, 2, out),
        _ if code < 0x10000 => write_hex("\\u", code, 4, out),
        _ => write_hex("\\U", code, 8, out),
    }
}

fn write_hex(prefix: &str, code: u32, digits: u32, out: &mut impl Sink) {
    out.push_text(prefix);
    for index in (0..digits).rev() {
        let digit = (code >> (4 * index) & 0xf) as usize;
        out.push_text(&"0123456789abcdef"[digit..=digit]);
    }
}

/// The first character; U+FFFD where the bytes are not UTF-8.
#[must_use]
pub fn first_char(bytes: &[u8]) -> Option<char> {
    let head = &bytes[..bytes.len().min(4)];
    let chunk = head.utf8_chunks().next()?;
    Some(chunk.valid().chars().next().unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// Whether a character prints: a letter, mark, number, punctuation, symbol, or the ASCII space.
///
/// Go 1.27 has the tables of Unicode 17, and so does the standard library of Rust 1.95. Rust
/// keeps them for `Debug`, reachable through `escape_debug`; behind a first character, combining
/// marks are not escaped there either.
#[must_use]
pub fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    let mut buffer = [b'a'; 5];
    let len_bytes = character.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..=len_bytes]).expect("an `a` and a character");
    text.escape_debug().nth(1) == Some(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Go's strconv.Quote printed the expected texts.
    #[test]
    fn strings_are_quoted_like_go() {
        let cases = [
            ("", r#""""#),
            ("plain text", r#""plain text""#),
            ("a\"b\\c'd", r#""a\"b\\c'd""#),
            ("\x07\x08\x0c\n\r\t\x0b", r#""\a\b\f\n\r\t\v""#),
            ("\0\x1b\x7f", r#""\x00\x1b\x7f""#),
            ("ünï 東京 😀", r#""ünï 東京 😀""#),
            ("\u{a0}\u{ad}\u{2028}\u{feff}", r#""\u00a0\u00ad\u2028\ufeff""#),
            ("e\u{301}", "\"e\u{301}\""),
            ("\u{e0001}", r#""\U000e0001""#),
            ("\u{fffd}", "\"\u{fffd}\""),
            // New in Unicode 17.
            ("\u{1f6d8}", "\"\u{1f6d8}\""),
        ];
        for (text, expected) in cases {
            assert_eq!(quoted(text), expected, "{text:?}");
        }
    }

    #[test]
    fn bytes_and_characters_are_quoted_like_go() {
        let mut out = Vec::new();
        write_quoted_bytes(b"a\xffb\xe2\x82", &mut out);
        assert_eq!(out, br#""a\xffb\xe2\x82""#);
        for (character, expected) in [('.', "'.'"), ('\'', r"'\''"), ('"', "'\"'"), ('ü', "'ü'")]
        {
            let mut out = Vec::new();
            write_quoted_char(character, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }

    #[test]
    fn code_points_show_the_characters_that_print() {
        for (character, expected) in
            [('q', "U+0071 'q'"), ('\'', "U+0027 '''"), ('\\', "U+005C '\\'"), ('\n', "U+000A")]
        {
            assert_eq!(code_point(character), expected);
        }
    }

    #[test]
    fn package_time_escapes_every_byte_beyond_ascii() {
        assert_eq!(quoted_by_time("1\"\u{7f}é\n"), "\"1\\\"\u{7f}\\xc3\\xa9\\x0a\"");
    }
}
