//! Escape sequences of JSON strings.

use crate::engine::labels::text::push_clean;

/// Appends a string without its escapes. With `clean`, U+FFFD and invalid bytes
/// become spaces. False when an escape is invalid or a surrogate stands alone; the
/// appended bytes mean nothing then.
pub(crate) fn push_unescaped(out: &mut Vec<u8>, mut text: &[u8], clean: bool) -> bool {
    while let Some(at) = memchr::memchr(b'\\', text) {
        push(out, &text[..at], clean);
        let Some((c, len)) = escape(&text[at..]) else { return false };
        let mut buffer = [0; 4];
        push(out, c.encode_utf8(&mut buffer).as_bytes(), clean);
        text = &text[at + len..];
    }
    push(out, text, clean);
    true
}

fn push(out: &mut Vec<u8>, text: &[u8], clean: bool) {
    if clean {
        push_clean(out, text);
    } else {
        out.extend_from_slice(text);
    }
}

/// The character that the escape at the start of the text stands for, and the
/// length of the escape.
fn escape(text: &[u8]) -> Option<(char, usize)> {
    let kind = *text.get(1)?;
    if kind != b'u' {
        return short(kind).map(|c| (c, 2));
    }
    let first = code_unit(text)?;
    match char::from_u32(first) {
        Some(c) => Some((c, 6)),
        None => Some((surrogates(first, code_unit(&text[6..])?)?, 12)),
    }
}

/// The character that a backslash and this byte stand for.
pub(crate) fn short(kind: u8) -> Option<char> {
    Some(match kind {
        b'"' | b'\\' | b'/' => char::from(kind),
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        _ => return None,
    })
}

/// The character that two surrogates make; `None` if they are no pair.
pub(crate) fn surrogates(first: u32, second: u32) -> Option<char> {
    let is_pair = (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second);
    let code = || 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    is_pair.then(code).and_then(char::from_u32)
}

/// The code unit of a `\uXXXX` at the start of the text.
pub(crate) fn code_unit(text: &[u8]) -> Option<u32> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unescaped(text: &str, clean: bool) -> Option<String> {
        let mut out = Vec::new();
        push_unescaped(&mut out, text.as_bytes(), clean)
            .then(|| String::from_utf8(out).expect("text"))
    }

    #[test]
    fn escapes_are_those_of_json() {
        let text = r#"a\"\\\/\b\f\n\r\t\u00fcz"#;
        assert_eq!(unescaped(text, true).as_deref(), Some("a\"\\/\u{8}\u{c}\n\r\t\u{fc}z"));
        assert_eq!(unescaped(r"\ud83d\ude80", true).as_deref(), Some("\u{1f680}"));
        assert_eq!(unescaped(r"\uFFFDx", true).as_deref(), Some(" x"));
        assert_eq!(unescaped(r"\uFFFDx", false).as_deref(), Some("\u{fffd}x"));
        for bad in [r"\q", r"\", r"\u12", r"\u12g4", r"\ud83d", r"\ud83dx", r"\ude80\ud83d"] {
            assert_eq!(unescaped(bad, true), None, "{bad}");
        }
    }
}
