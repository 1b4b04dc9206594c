//! JSON strings: checked once, unescaped only when needed.

use std::borrow::Cow;

/// The inside of a JSON string whose escapes were checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawText<'a> {
    raw: &'a [u8],
    decoded_len_bytes: usize,
}

/// What is wrong with a string, and how far into it.
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
            let rest = &bytes[position..];
            let Some(found) = memchr::memchr2(b'"', b'\\', rest) else {
                let message = "unterminated string";
                return Err(TextError { offset_bytes: bytes.len(), message });
            };
            position += found;
            if rest[found] == b'"' {
                let raw = &bytes[..position];
                let decoded_len_bytes = position - saved_bytes;
                return Ok((RawText { raw, decoded_len_bytes }, position + 1));
            }
            let (character, len_bytes) = read_escape(&bytes[position..])
                .map_err(|message| TextError { offset_bytes: position, message })?;
            saved_bytes += len_bytes - character.len_utf8();
            position += len_bytes;
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
    /// what it stands for, so lengths tell.
    pub fn has_escapes(&self) -> bool {
        self.decoded_len_bytes != self.raw.len()
    }

    /// Length of the text without escapes.
    pub(super) fn decoded_len_bytes(&self) -> usize {
        self.decoded_len_bytes
    }

    /// Appends the text without escapes. Surrogates that do not pair up become
    /// U+FFFD, as in Go.
    pub fn unescape_into(&self, out: &mut Vec<u8>) {
        let mut rest = self.raw;
        out.reserve(rest.len());
        while let Some(found) =
            find_near(rest, |byte| byte == b'\\').or_else(|| memchr::memchr(b'\\', rest))
        {
            out.extend_from_slice(&rest[..found]);
            let (character, len_bytes) =
                read_escape(&rest[found..]).expect("escapes were checked by the scan");
            match u8::try_from(character) {
                Ok(byte) if byte.is_ascii() => out.push(byte),
                _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
            rest = &rest[found + len_bytes..];
        }
        out.extend_from_slice(rest);
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

/// Looks at the next few bytes only: escapes come in crowds (a JSON line inside
/// a JSON push), where starting a vectorised search for each costs more.
#[inline]
fn find_near(bytes: &[u8], wanted: impl Fn(u8) -> bool) -> Option<usize> {
    bytes.iter().take(16).position(|&byte| wanted(byte))
}

/// Reads an escape at the start of `bytes`, which begins with a backslash: the
/// character and the bytes read.
fn read_escape(bytes: &[u8]) -> Result<(char, usize), &'static str> {
    let character = match bytes.get(1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'/') => '/',
        Some(b'b') => '\x08',
        Some(b'f') => '\x0c',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return read_unicode_escape(bytes),
        Some(_) => return Err("unknown escape in a string"),
        None => return Err("unterminated string"),
    };
    Ok((character, 2))
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
