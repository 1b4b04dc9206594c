//! Quoting of strings and characters the way Go's `%q` prints them, which
//! clients see in label sets, queries and error texts.
//!
//! Rules (Go language, package `strconv`): `\a \b \f \n \r \t \v \\ \"`, other
//! control characters below 0x80 as `\x1b`, characters that do not print as
//! `\u2028` or `\U000e0001`, bytes that are not UTF-8 as `\xff`.

/// Appends `text` in double quotes.
pub fn write_go_quoted(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped(text, b'"', out);
    out.push(b'"');
}

/// `text` in double quotes, as an owned string.
pub fn go_quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    write_go_quoted(text, &mut out);
    String::from_utf8(out).expect("quoting keeps UTF-8")
}

/// Appends `text` in double quotes; bytes that are not UTF-8 become `\xff`.
pub fn write_go_quoted_bytes(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        write_escaped(chunk.valid(), b'"', out);
        for &byte in chunk.invalid() {
            write_hex(b'x', u32::from(byte), 2, out);
        }
    }
    out.push(b'"');
}

/// Appends `character` in single quotes, as `%q` prints a rune.
pub fn write_go_char(character: char, out: &mut Vec<u8>) {
    out.push(b'\'');
    write_escaped(character.encode_utf8(&mut [0; 4]), b'\'', out);
    out.push(b'\'');
}

fn write_escaped(text: &str, quote: u8, out: &mut Vec<u8>) {
    let plain = |byte: u8| (0x20..0x7f).contains(&byte) && byte != quote && byte != b'\\';
    let mut rest = text;
    loop {
        let run = rest.bytes().position(|byte| !plain(byte)).unwrap_or(rest.len());
        out.extend_from_slice(&rest.as_bytes()[..run]);
        rest = &rest[run..];
        let Some(character) = rest.chars().next() else { return };
        write_char(character, quote, out);
        rest = &rest[character.len_utf8()..];
    }
}

fn write_char(character: char, quote: u8, out: &mut Vec<u8>) {
    let code = character as u32;
    let short = match character {
        '\x07' => b'a',
        '\x08' => b'b',
        '\x0c' => b'f',
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\x0b' => b'v',
        '\\' => b'\\',
        _ if code == u32::from(quote) => quote,
        _ if code < 0x80 => return write_hex(b'x', code, 2, out),
        _ if is_printable(character) => {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            return;
        }
        _ if code < 0x10000 => return write_hex(b'u', code, 4, out),
        _ => return write_hex(b'U', code, 8, out),
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn write_hex(kind: u8, code: u32, digits: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b'\\', kind]);
    for index in (0..digits).rev() {
        out.push(b"0123456789abcdef"[(code >> (4 * index) & 0xf) as usize]);
    }
}

/// Letters, marks, numbers, punctuation and symbols. The standard library keeps
/// the same table for `Debug`, reachable through `escape_debug`; behind a first
/// character, combining marks are not escaped there either.
fn is_printable(character: char) -> bool {
    let mut buffer = [b'a'; 5];
    let len_bytes = character.encode_utf8(&mut buffer[1..]).len();
    let text = std::str::from_utf8(&buffer[..=len_bytes]).expect("an `a` and a character");
    text.escape_debug().nth(1) == Some(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Expected texts are what Go's strconv.Quote prints.
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
        ];
        for (text, expected) in cases {
            assert_eq!(go_quoted(text), expected, "{text:?}");
        }
    }

    #[test]
    fn bytes_and_characters_are_quoted_like_go() {
        let mut out = Vec::new();
        write_go_quoted_bytes(b"a\xffb\xe2\x82", &mut out);
        assert_eq!(out, br#""a\xffb\xe2\x82""#);
        for (character, expected) in [('.', "'.'"), ('\'', r"'\''"), ('"', "'\"'"), ('ü', "'ü'")]
        {
            let mut out = Vec::new();
            write_go_char(character, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), expected);
        }
    }
}
