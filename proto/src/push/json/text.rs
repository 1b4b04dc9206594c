//! JSON strings: checked once, unescaped only when needed.

use std::borrow::Cow;

use crate::words::{bytes_before_backslash, quote_or_backslash};

/// The inside of a JSON string whose escapes were checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawText<'a> {
    raw: &'a [u8],
    decoded_len_bytes: usize,
}

/// The fault of a string, and its offset.
pub(super) struct TextError {
    pub(super) offset_bytes: usize,
    pub(super) message: &'static str,
}

impl<'a> RawText<'a> {
    /// Scans a string of which the opening quote was read. Gives the text and
    /// the bytes read, closing quote included.
    pub(super) fn scan(bytes: &'a [u8]) -> Result<(RawText<'a>, usize), TextError> {
        let mut position = 0;
        let mut saved_bytes = 0;
        loop {
            let Some(found) = quote_or_backslash(bytes, position) else {
                let message = "unterminated string";
                return Err(TextError { offset_bytes: bytes.len(), message });
            };
            if bytes[found] == b'"' {
                let text = RawText { raw: &bytes[..found], decoded_len_bytes: found - saved_bytes };
                return Ok((text, found + 1));
            }
            if short_escape(bytes, found).is_some() {
                position = found + 2;
                saved_bytes += 1;
                continue;
            }
            let (character, len_bytes) = read_long_escape(&bytes[found..])
                .map_err(|message| TextError { offset_bytes: found, message })?;
            position = found + len_bytes;
            saved_bytes += len_bytes - character.len_utf8();
        }
    }

    /// The inside of a string that was scanned before.
    pub(crate) fn of_checked(raw: &'a [u8]) -> RawText<'a> {
        let mut text = RawText { raw, decoded_len_bytes: usize::MAX };
        if memchr::memchr(b'\\', raw).is_none() {
            text.decoded_len_bytes = raw.len();
        }
        text
    }

    /// The bytes between the quotes, escapes and all.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// Whether [`Self::raw`] differs from the text. Every escape is longer than
    /// its character, so lengths tell.
    pub fn has_escapes(&self) -> bool {
        self.decoded_len_bytes != self.raw.len()
    }

    /// Length of the text without escapes.
    pub(super) fn decoded_len_bytes(&self) -> usize {
        self.decoded_len_bytes
    }

    /// Appends the text without escapes. Surrogates that do not pair up become
    /// U+FFFD, as in Go.
    ///
    /// Eight bytes at a time: escapes come in crowds (a JSON line inside a JSON push), with
    /// a few bytes between them.
    pub fn unescape_into(&self, out: &mut Vec<u8>) {
        const WORD_LEN: usize = size_of::<u64>();
        let raw = self.raw;
        let start = out.len();
        // Escapes are longer than their values, so whole words have room everywhere.
        out.resize(start + raw.len() + WORD_LEN, 0);
        let text = &mut out[start..];
        let (mut read, mut written) = (0, 0);
        loop {
            let before = match raw[read..].first_chunk::<WORD_LEN>() {
                Some(word) => {
                    text[written..written + WORD_LEN].copy_from_slice(word);
                    bytes_before_backslash(u64::from_le_bytes(*word))
                }
                None => {
                    let rest = &raw[read..];
                    let before = rest.iter().position(|&b| b == b'\\').unwrap_or(rest.len());
                    text[written..written + before].copy_from_slice(&rest[..before]);
                    before
                }
            };
            read += before;
            written += before;
            if before == WORD_LEN {
                continue;
            }
            if read == raw.len() {
                break;
            }
            if let Some(byte) = short_escape(raw, read) {
                text[written] = byte;
                read += 2;
                written += 1;
                continue;
            }
            let (character, len_bytes) =
                read_long_escape(&raw[read..]).expect("escapes were checked by the scan");
            read += len_bytes;
            written += character.encode_utf8(&mut text[written..]).len();
        }
        out.truncate(start + written);
    }

    /// The text without escapes.
    pub fn unescaped(&self) -> Cow<'a, [u8]> {
        if !self.has_escapes() {
            return Cow::Borrowed(self.raw);
        }
        let mut out = Vec::with_capacity(self.raw.len());
        self.unescape_into(&mut out);
        Cow::Owned(out)
    }

    /// Whether the text is `name`.
    pub(super) fn is(&self, name: &str) -> bool {
        *self.unescaped() == *name.as_bytes()
    }

    /// Whether the text is `name` but for letter case.
    pub(super) fn is_ignoring_case(&self, name: &str) -> bool {
        self.unescaped().eq_ignore_ascii_case(name.as_bytes())
    }
}

/// The bytes for the letters behind a backslash; 0 if a letter does not stand for one byte.
const SHORT_ESCAPES: [u8; 256] = {
    let mut stands_for = [0; 256];
    stands_for[b'"' as usize] = b'"';
    stands_for[b'\\' as usize] = b'\\';
    stands_for[b'/' as usize] = b'/';
    stands_for[b'b' as usize] = b'\x08';
    stands_for[b'f' as usize] = b'\x0c';
    stands_for[b'n' as usize] = b'\n';
    stands_for[b'r' as usize] = b'\r';
    stands_for[b't' as usize] = b'\t';
    stands_for
};

/// The byte for the escape at `at`, which begins with a backslash, if the escape has two
/// bytes.
#[inline]
fn short_escape(bytes: &[u8], at: usize) -> Option<u8> {
    let byte = SHORT_ESCAPES[usize::from(*bytes.get(at + 1)?)];
    (byte != 0).then_some(byte)
}

/// Reads an escape that is not short at the start of `bytes`, which begins with a backslash:
/// the character and the bytes read.
fn read_long_escape(bytes: &[u8]) -> Result<(char, usize), &'static str> {
    match bytes.get(1) {
        Some(b'u') => read_unicode_escape(bytes),
        Some(_) => Err("unknown escape in a string"),
        None => Err("unterminated string"),
    }
}

fn read_unicode_escape(bytes: &[u8]) -> Result<(char, usize), &'static str> {
    let first = read_hex(bytes).ok_or("\\u needs four hexadecimal digits")?;
    if let Some(character) = char::from_u32(first) {
        return Ok((character, 6));
    }
    // A high surrogate counts only together with the low one behind it.
    if first < 0xdc00
        && let Some(second) = bytes.get(6..).and_then(read_hex)
        && (0xdc00..0xe000).contains(&second)
    {
        let code = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        return Ok((char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), 12));
    }
    Ok((char::REPLACEMENT_CHARACTER, 6))
}

/// The code unit of a `\uXXXX` at the start of `bytes`.
fn read_hex(bytes: &[u8]) -> Option<u32> {
    let (b"\\u", digits) = bytes.get(..6)?.split_at(2) else { return None };
    digits.iter().try_fold(0, |code, &digit| Some(code * 16 + char::from(digit).to_digit(16)?))
}
