//! JSON strings.
//!
//! `"` and `\` are escaped, control characters below 0x20 too; bytes that are not
//! UTF-8 come out as `\ufffd`. In log lines `<`, `>`, `&`, U+2028 and U+2029 are
//! escaped as well, as the reference does for answers that end up in HTML.

use crate::encode::Commas;

const HEX: &[u8; 16] = b"0123456789abcdef";
/// Long enough to fill vector registers, short enough that one byte to escape
/// does not cost a long scalar stretch.
const CHUNK_LEN_BYTES: usize = 32;

#[inline(always)]
fn needs_look<const HTML: bool>(byte: u8) -> bool {
    let plain_json = (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    // 0xe2 begins U+2028 and U+2029.
    let html = (byte == b'<') | (byte == b'>') | (byte == b'&') | (byte == 0xe2);
    plain_json | (HTML & html)
}

/// Appends a log line as a JSON string.
pub fn write_json_line(line: &[u8], out: &mut Vec<u8>) {
    write_bytes::<true>(line, out);
}

/// Appends a text as a JSON string.
pub fn write_json_text(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    write_escaped::<false>(text, out);
    out.push(b'"');
}

/// Appends bytes that ought to be UTF-8 as a JSON string.
pub fn write_json_bytes(text: &[u8], out: &mut Vec<u8>) {
    write_bytes::<false>(text, out);
}

fn write_bytes<const HTML: bool>(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    match simdutf8::basic::from_utf8(text) {
        Ok(text) => write_escaped::<HTML>(text, out),
        Err(_) => {
            for chunk in text.utf8_chunks() {
                write_escaped::<HTML>(chunk.valid(), out);
                // One mark per byte, as Go counts them.
                for _ in chunk.invalid() {
                    out.extend_from_slice(b"\\ufffd");
                }
            }
        }
    }
    out.push(b'"');
}

fn write_escaped<const HTML: bool>(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    let (mut copied, mut position) = (0, 0);
    while position < bytes.len() {
        if let Some(chunk) = bytes[position..].first_chunk::<CHUNK_LEN_BYTES>() {
            // Without a branch inside, so that it becomes vector code.
            let dirty = chunk.iter().fold(false, |dirty, &byte| dirty | needs_look::<HTML>(byte));
            if !dirty {
                position += CHUNK_LEN_BYTES;
                continue;
            }
        }
        let end = bytes.len().min(position + CHUNK_LEN_BYTES);
        while position < end {
            let byte = bytes[position];
            let escaped_len_bytes = match byte {
                _ if !needs_look::<HTML>(byte) => 0,
                0xe2 => match bytes[position..] {
                    [_, 0x80, 0xa8 | 0xa9, ..] => 3,
                    _ => 0,
                },
                _ => 1,
            };
            if escaped_len_bytes > 0 {
                out.extend_from_slice(&bytes[copied..position]);
                write_escape(byte, bytes[position + escaped_len_bytes - 1], out);
                copied = position + escaped_len_bytes;
            }
            position += escaped_len_bytes.max(1);
        }
    }
    out.extend_from_slice(&bytes[copied..]);
}

/// Writes the escape of a character, given its first and last byte.
fn write_escape(first: u8, last: u8, out: &mut Vec<u8>) {
    match first {
        b'"' | b'\\' => out.extend_from_slice(&[b'\\', first]),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\r' => out.extend_from_slice(b"\\r"),
        b'\t' => out.extend_from_slice(b"\\t"),
        0xe2 => out.extend_from_slice(if last == 0xa8 { b"\\u2028" } else { b"\\u2029" }),
        _ => {
            let (high, low) = (HEX[usize::from(first >> 4)], HEX[usize::from(first & 0xf)]);
            out.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
        }
    }
}

/// Appends `{"a":"1","b":"2"}`; the pairs come by ascending name.
pub fn write_label_object<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, out: &mut Vec<u8>) {
    out.push(b'{');
    let mut commas = Commas::default();
    for (name, value) in pairs {
        commas.next(out);
        write_json_text(name, out);
        out.push(b':');
        write_json_text(value, out);
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn line(text: &[u8]) -> String {
        let mut out = Vec::new();
        write_json_line(text, &mut out);
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    fn text(text: &str) -> String {
        let mut out = Vec::new();
        write_json_text(text, &mut out);
        String::from_utf8(out).expect("JSON is UTF-8")
    }

    #[test]
    fn lines_are_escaped_for_html_and_labels_are_not() {
        assert_eq!(
            line(b"<a href=\"x\">&\0\x1b\n"),
            r#""\u003ca href=\"x\"\u003e\u0026\u0000\u001b\n""#
        );
        assert_eq!(
            line("\u{2028}\u{2029}\u{2027}東\u{20ac}".as_bytes()),
            "\"\\u2028\\u2029\u{2027}東€\""
        );
        assert_eq!(text("<a>&\u{2028}\"\\\t\r"), "\"<a>&\u{2028}\\\"\\\\\\t\\r\"");
        assert_eq!(line(b"a\xffb\xe2\x80"), r#""a\ufffdb\ufffd\ufffd""#);
        assert_eq!(line(b""), "\"\"");
        let mut out = Vec::new();
        write_json_bytes(b"<\xff>", &mut out);
        assert_eq!(out, br#""<\ufffd>""#);
    }

    #[test]
    fn label_objects_keep_the_order_given() {
        let mut out = Vec::new();
        write_label_object([("a", "1"), ("b", "\"")].into_iter(), &mut out);
        assert_eq!(out, br#"{"a":"1","b":"\""}"#);
    }

    proptest! {
        #[test]
        fn escaped_strings_are_read_back(parts in prop::collection::vec(
            prop_oneof![any::<String>(), "[ -~]{30,70}", "[<>&\"\\\\\u{2028}\u{2029}\u{2030}]{1,9}"], 0..5,
        )) {
            let whole = parts.concat();
            prop_assert_eq!(serde_json::from_str::<String>(&text(&whole)).expect("valid"), &*whole);
            let escaped = line(whole.as_bytes());
            let left = escaped.contains(['<', '>', '&', '\u{2028}', '\u{2029}']);
            prop_assert!(!left);
            prop_assert_eq!(serde_json::from_str::<String>(&escaped).expect("valid"), &*whole);
        }

        #[test]
        fn any_bytes_make_valid_json(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            let read: String = serde_json::from_str(&line(&bytes)).expect("valid");
            let plain = |text: &str| text.replace('\u{fffd}', "");
            prop_assert_eq!(plain(&read), plain(&String::from_utf8_lossy(&bytes)));
        }
    }
}
