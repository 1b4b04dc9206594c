//! JSON strings.
//!
//! `"` and `\` are escaped, control characters below 0x20 too; bytes that are not
//! UTF-8 come out as `\ufffd`. In log lines `<`, `>`, `&`, U+2028 and U+2029 are
//! escaped as well, as Loki does for answers that end up in HTML.

use crate::encode::Commas;

const HEX: &[u8; 16] = b"0123456789abcdef";
/// Long enough to fill vector registers, short enough that one byte to escape
/// does not cost a long scalar stretch.
const CHUNK_LEN_BYTES: usize = 32;
/// `\u001b`.
const MAX_ESCAPE_LEN_BYTES: usize = 6;

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
        let end = bytes.len().min(position + CHUNK_LEN_BYTES);
        let dirty = match bytes[position..].first_chunk::<CHUNK_LEN_BYTES>() {
            // Without a branch inside, so that it becomes vector code.
            Some(chunk) => {
                chunk.iter().fold(0, |dirty, &byte| dirty | u8::from(needs_look::<HTML>(byte))) != 0
            }
            None => true,
        };
        if dirty {
            out.extend_from_slice(&bytes[copied..position]);
            position = write_chunk::<HTML>(bytes, position, end, out);
            copied = position;
        } else {
            position = end;
        }
    }
    out.extend_from_slice(&bytes[copied..]);
}

/// The escape of a byte: 0 stands for the byte itself, `u` for `\u00` and its code,
/// [`LOOK_AHEAD`] for an escape that depends on the bytes behind it, any other letter for a
/// backslash and that letter.
const fn actions(html: bool) -> [u8; 256] {
    let mut actions = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        actions[byte] = match byte as u8 {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0xe2 if html => LOOK_AHEAD,
            b'<' | b'>' | b'&' if html => b'u',
            0..0x20 => b'u',
            _ => 0,
        };
        byte += 1;
    }
    actions
}

const LOOK_AHEAD: u8 = 1;
static HTML_ACTIONS: [u8; 256] = actions(true);
static PLAIN_ACTIONS: [u8; 256] = actions(false);

/// Writes `bytes[position..end]` with escapes; gives the end, which is a little
/// later if a character crosses it. Goes through a buffer on the stack, because
/// runs between escapes are too short for a copy each.
fn write_chunk<const HTML: bool>(
    bytes: &[u8],
    mut position: usize,
    end: usize,
    out: &mut Vec<u8>,
) -> usize {
    let actions = if HTML { &HTML_ACTIONS } else { &PLAIN_ACTIONS };
    let mut buffer = [0; CHUNK_LEN_BYTES * MAX_ESCAPE_LEN_BYTES];
    let mut filled = 0;
    while position < end {
        let byte = bytes[position];
        position += 1;
        let action = actions[usize::from(byte)];
        let escape = match action {
            0 => {
                buffer[filled] = byte;
                filled += 1;
                continue;
            }
            LOOK_AHEAD => match bytes.get(position..position + 2) {
                Some(&[0x80, last @ (0xa8 | 0xa9)]) => {
                    position += 2;
                    if last == 0xa8 { *b"\\u2028" } else { *b"\\u2029" }
                }
                _ => {
                    buffer[filled] = byte;
                    filled += 1;
                    continue;
                }
            },
            b'u' => {
                let (high, low) = (HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 0xf)]);
                [b'\\', b'u', b'0', b'0', high, low]
            }
            letter => {
                buffer[filled..filled + 2].copy_from_slice(&[b'\\', letter]);
                filled += 2;
                continue;
            }
        };
        buffer[filled..filled + MAX_ESCAPE_LEN_BYTES].copy_from_slice(&escape);
        filled += MAX_ESCAPE_LEN_BYTES;
    }
    out.extend_from_slice(&buffer[..filled]);
    position
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
