//! A lenient reader of JSON text.
//!
//! It looks for fields and for the ends of values, and accepts much that is no JSON, as Loki
//! does. Every step moves forward; the time is linear in
//! the text, except that the end of an object or array is looked for before it is
//! read, once per level of nesting, and [`MAX_DEPTH`] bounds the levels.
//!
//! The functions are inlined into the loops over fields, so that fields stay in
//! registers; handing them over in memory took a third of the time.

use logsvc_proto::words::quote_or_backslash;

/// Levels of nested objects that are read.
pub(crate) const MAX_DEPTH: usize = 64;

/// The fault of a text, in the words of Loki.
pub(crate) type Failure = &'static str;

pub(crate) const MALFORMED: Failure = "Malformed JSON error";
pub(crate) const NO_STRING_END: Failure = r#"Value is string, but can't find closing '"' symbol"#;
pub(crate) const NO_ARRAY_END: Failure = "Value is array, but can't find closing ']' symbol";
pub(crate) const NO_OBJECT_END: Failure =
    "Value looks like object, but can't find closing '}' symbol";
pub(crate) const UNKNOWN_VALUE: Failure = "Unknown value type";
pub(crate) const BAD_ESCAPE: Failure = "Encountered an invalid escape sequence in a string";
pub(crate) const TOO_DEEP: Failure = "Objects are nested more than 64 levels deep";

/// The kind of a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A string; the text stands between the quotes.
    String {
        /// Whether there is a backslash.
        has_escapes: bool,
    },
    /// Begins like a number, whatever follows.
    Number,
    /// `true` or `false`
    Boolean,
    /// `null`
    Null,
    /// With its brackets.
    Array,
    /// With its braces.
    Object,
}

/// A value and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'l> {
    pub(crate) kind: Kind,
    pub(crate) text: &'l [u8],
}

/// A field of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'l> {
    /// Between the quotes.
    pub(crate) key: &'l [u8],
    pub(crate) key_has_escapes: bool,
    pub(crate) value: Value<'l>,
}

/// The position of the next byte that is no white space.
#[inline(always)]
pub(crate) fn skip_space(data: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while let Some(b' ' | b'\n' | b'\r' | b'\t') = data.get(at) {
        at += 1;
    }
    (at < data.len()).then_some(at)
}

/// The position behind the closing quote of a string whose opening quote lies
/// before `from`, and whether the string holds a backslash.
#[inline(always)]
pub(crate) fn string_end(data: &[u8], from: usize) -> Option<(usize, bool)> {
    let mut has_escapes = false;
    let mut at = from;
    loop {
        let hit = quote_or_backslash(data, at)?;
        if data[hit] == b'"' {
            return Some((hit + 1, has_escapes));
        }
        has_escapes = true;
        at = hit + 2;
    }
}

/// The position behind the bracket that closes the one at `from`. Only brackets of
/// this kind count, and strings are skipped.
pub(crate) fn block_end(data: &[u8], from: usize, open: u8, close: u8) -> Option<usize> {
    let mut level = 0usize;
    let mut at = from;
    while let Some(&byte) = data.get(at) {
        at += 1;
        if byte == b'"' {
            at = string_end(data, at)?.0;
        } else if byte == open {
            level += 1;
        } else if byte == close {
            level -= 1;
            if level == 0 {
                return Some(at);
            }
        }
    }
    None
}

/// The bytes that end a number or a word.
const ENDS_VALUE: [bool; 256] = {
    let mut ends = [false; 256];
    let bytes = b" \n\r\t,}]";
    let mut i = 0;
    while i < bytes.len() {
        ends[bytes[i] as usize] = true;
        i += 1;
    }
    ends
};

/// Reads the value at or behind `from`; the second part is the position behind it.
#[inline(always)]
pub(crate) fn value(data: &[u8], from: usize) -> Result<(Value<'_>, usize), Failure> {
    let at = skip_space(data, from).ok_or(MALFORMED)?;
    let (kind, start, end, next) = match data[at] {
        b'"' => {
            let (next, has_escapes) = string_end(data, at + 1).ok_or(NO_STRING_END)?;
            (Kind::String { has_escapes }, at + 1, next - 1, next)
        }
        b'[' => {
            let end = block_end(data, at, b'[', b']').ok_or(NO_ARRAY_END)?;
            (Kind::Array, at, end, end)
        }
        b'{' => {
            let end = block_end(data, at, b'{', b'}').ok_or(NO_OBJECT_END)?;
            (Kind::Object, at, end, end)
        }
        first => {
            let rest = &data[at..];
            let is_end = |b: &u8| ENDS_VALUE[usize::from(*b)];
            let end = rest.iter().position(is_end).map_or(data.len(), |len| at + len);
            let kind = match first {
                b'0'..=b'9' | b'-' => Kind::Number,
                _ => match &data[at..end] {
                    b"true" | b"false" => Kind::Boolean,
                    b"null" => Kind::Null,
                    _ => return Err(UNKNOWN_VALUE),
                },
            };
            (kind, at, end, end)
        }
    };
    Ok((Value { kind, text: &data[start..end] }, next))
}

/// Reads the fields of an object one by one.
#[derive(Debug)]
pub(crate) struct Fields<'l> {
    data: &'l [u8],
    at: usize,
    is_first: bool,
}

impl<'l> Fields<'l> {
    /// Opens the object that `data` begins with. Bytes behind the object are ignored.
    pub(crate) fn open(data: &'l [u8]) -> Result<Self, Failure> {
        match skip_space(data, 0) {
            Some(at) if data[at] == b'{' => Ok(Self { data, at: at + 1, is_first: true }),
            _ => Err(NO_OBJECT_END),
        }
    }

    /// The position behind the last field.
    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The next field; `None` behind the last one.
    #[inline(always)]
    pub(crate) fn next(&mut self) -> Result<Option<Field<'l>>, Failure> {
        let data = self.data;
        let mut at = self.at;
        if self.is_first {
            self.is_first = false;
            at = skip_space(data, at).ok_or(MALFORMED)?;
        } else {
            at = skip_space(data, at).ok_or(NO_ARRAY_END)?;
            match data[at] {
                b'}' => return Ok(None),
                b',' => at = skip_space(data, at + 1).ok_or(NO_ARRAY_END)?,
                _ => return Err(NO_OBJECT_END),
            }
        }
        match data[at] {
            b'"' => {}
            b'}' => return Ok(None),
            _ => return Err(NO_OBJECT_END),
        }
        let (key_end, key_has_escapes) = string_end(data, at + 1).ok_or(MALFORMED)?;
        let key = &data[at + 1..key_end - 1];
        let colon = skip_space(data, key_end).ok_or(MALFORMED)?;
        if data[colon] != b':' {
            return Err(MALFORMED);
        }
        let (value, next) = value(data, colon + 1)?;
        self.at = next;
        Ok(Some(Field { key, key_has_escapes, value }))
    }
}
