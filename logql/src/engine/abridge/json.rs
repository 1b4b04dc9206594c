//! Abridges lines for `| json`: fields at the top whose labels are wanted, and objects that may
//! hold such fields, stay as they are.
//!
//! The rules are those of [`super::super::pipeline::json::scan`]. A line is refused where that
//! reader finds a fault, and where a number stands in a key or a word.

use logsvc_proto::words::quote_or_backslash;

use super::{Names, NumberKind, push_key};

/// What was read last.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) enum JsonState {
    /// Nothing, or white space.
    Before,
    /// The brace that opens the object, or a comma. `is_next`: whether a field was kept.
    FieldStart { is_next: bool },
    /// A part of a key.
    Key { is_next: bool, key: Vec<u8> },
    /// A key with its quotes.
    KeyEnd { is_next: bool, key: Vec<u8> },
    /// A colon.
    ValueStart { is_next: bool, key: Vec<u8> },
    /// A part of a string, and maybe a backslash before the next byte.
    String { field: Field, is_escaped: bool },
    /// A part of a number.
    Number { field: Field },
    /// A part of `true`, `false` or `null`.
    Word { field: Field, word: Vec<u8> },
    /// A part of an array or object, in which so many brackets of its kind are open.
    Nested { field: Field, is_array: bool, level: u16, within: Within },
    /// A value.
    ValueEnd { is_next: bool },
    /// The object.
    Behind,
}

/// A field at the top.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Field {
    is_kept: bool,
    /// Whether this field or one before it is kept.
    is_next: bool,
}

/// Where in an array or object a piece ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Within {
    Brackets,
    String,
    /// Behind a backslash.
    Escape,
}

const WORDS: [&[u8]; 3] = [b"true", b"false", b"null"];

impl JsonState {
    pub(super) const START: JsonState = JsonState::Before;

    /// Reads what stays within a string, a key or behind the object, at once: the number of
    /// bytes. `None` refuses the line.
    pub(super) fn same(&mut self, text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
        let len = || quote_or_backslash(text, 0).unwrap_or(text.len());
        match self {
            JsonState::String { field, is_escaped: false } => {
                let len = len();
                if field.is_kept {
                    out.extend_from_slice(&text[..len]);
                }
                Some(len)
            }
            JsonState::Key { key, .. } => {
                let len = len();
                push_key(key, &text[..len])?;
                Some(len)
            }
            JsonState::Behind => Some(text.len()),
            _ => Some(0),
        }
    }

    /// Reads a byte. `None` refuses the line.
    pub(super) fn byte(&mut self, byte: u8, names: &Names, out: &mut Vec<u8>) -> Option<()> {
        let is_space = matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        let next = match self {
            JsonState::Before if is_space => return Some(()),
            JsonState::Before if byte == b'{' => {
                out.push(b'{');
                JsonState::FieldStart { is_next: false }
            }
            JsonState::FieldStart { .. } | JsonState::KeyEnd { .. } if is_space => return Some(()),
            JsonState::ValueStart { .. } | JsonState::ValueEnd { .. } if is_space => {
                return Some(());
            }
            JsonState::FieldStart { is_next } if byte == b'"' => {
                JsonState::Key { is_next: *is_next, key: Vec::new() }
            }
            JsonState::FieldStart { .. } if byte == b'}' => {
                out.push(b'}');
                JsonState::Behind
            }
            JsonState::Key { is_next, key } => match byte {
                b'\\' => return None,
                b'"' => JsonState::KeyEnd { is_next: *is_next, key: std::mem::take(key) },
                _ => return push_key(key, &[byte]),
            },
            JsonState::KeyEnd { is_next, key } if byte == b':' => {
                JsonState::ValueStart { is_next: *is_next, key: std::mem::take(key) }
            }
            JsonState::ValueStart { is_next, key } => {
                let is_kept = match byte {
                    // Fields within it may be wanted, or its faults.
                    b'{' => names.minds_errors || names.may_want_within(key),
                    _ => names.may_want(key),
                };
                let field = Field::begin(key, is_kept, *is_next, out);
                field.keep(byte, out);
                match byte {
                    b'"' => JsonState::String { field, is_escaped: false },
                    b'[' | b'{' => JsonState::Nested {
                        field,
                        is_array: byte == b'[',
                        level: 1,
                        within: Within::Brackets,
                    },
                    b'0'..=b'9' | b'-' => JsonState::Number { field },
                    b'a'..=b'z' => JsonState::Word { field, word: vec![byte] },
                    _ => return None,
                }
            }
            JsonState::String { field, is_escaped } => {
                field.keep(byte, out);
                match byte {
                    _ if *is_escaped => JsonState::String { field: *field, is_escaped: false },
                    b'"' => JsonState::ValueEnd { is_next: field.is_next },
                    b'\\' => JsonState::String { field: *field, is_escaped: true },
                    _ => return Some(()),
                }
            }
            JsonState::Number { .. } | JsonState::Word { .. } => {
                return self.scalar(byte, names, out);
            }
            JsonState::Nested { field, is_array, level, within } => {
                field.keep(byte, out);
                let (open, close) = if *is_array { (b'[', b']') } else { (b'{', b'}') };
                match (*within, byte) {
                    (Within::Escape, _) => *within = Within::String,
                    (Within::String, b'\\') => *within = Within::Escape,
                    (Within::String, b'"') => *within = Within::Brackets,
                    (Within::Brackets, b'"') => *within = Within::String,
                    (Within::Brackets, _) if byte == open => *level = level.checked_add(1)?,
                    (Within::Brackets, _) if byte == close => *level -= 1,
                    _ => {}
                }
                match *level {
                    0 => JsonState::ValueEnd { is_next: field.is_next },
                    _ => return Some(()),
                }
            }
            JsonState::ValueEnd { is_next } if byte == b',' => {
                JsonState::FieldStart { is_next: *is_next }
            }
            JsonState::ValueEnd { .. } if byte == b'}' => {
                out.push(b'}');
                JsonState::Behind
            }
            // What stands behind the object is not looked at.
            JsonState::Behind => return Some(()),
            _ => return None,
        };
        *self = next;
        Some(())
    }

    /// Reads a byte of a number or word, or the one behind it.
    fn scalar(&mut self, byte: u8, names: &Names, out: &mut Vec<u8>) -> Option<()> {
        if !matches!(byte, b' ' | b'\n' | b'\r' | b'\t' | b',' | b'}' | b']') {
            return match self {
                JsonState::Number { field } => {
                    field.keep(byte, out);
                    Some(())
                }
                JsonState::Word { field, word } => {
                    field.keep(byte, out);
                    word.push(byte);
                    WORDS.iter().any(|known| known.starts_with(word)).then_some(())
                }
                _ => None,
            };
        }
        let is_next = match self {
            JsonState::Number { field } => field.is_next,
            JsonState::Word { field, word } if WORDS.contains(&&word[..]) => field.is_next,
            _ => return None,
        };
        *self = JsonState::ValueEnd { is_next };
        self.byte(byte, names, out)
    }

    /// Reads a number: whether it is kept. `None` refuses the line.
    pub(super) fn number(
        &mut self,
        kind: NumberKind,
        names: &Names,
        out: &mut Vec<u8>,
    ) -> Option<bool> {
        match self {
            JsonState::String { field, is_escaped } => {
                *is_escaped = false;
                Some(field.is_kept)
            }
            JsonState::Nested { field, within, .. } => {
                if *within == Within::Escape {
                    *within = Within::String;
                }
                Some(field.is_kept)
            }
            // A time may have a comma or a space, which end a number.
            JsonState::Number { field }
                if matches!(kind, NumberKind::Decimal | NumberKind::Hex) =>
            {
                Some(field.is_kept)
            }
            JsonState::ValueStart { is_next, key } if kind == NumberKind::Decimal => {
                let field = Field::begin(key, names.may_want(key), *is_next, out);
                *self = JsonState::Number { field };
                Some(field.is_kept)
            }
            JsonState::Behind => Some(false),
            _ => None,
        }
    }
}

impl Field {
    /// A field, whose key is appended if it is kept.
    fn begin(key: &[u8], is_kept: bool, is_next: bool, out: &mut Vec<u8>) -> Field {
        if is_kept {
            if is_next {
                out.push(b',');
            }
            out.push(b'"');
            out.extend_from_slice(key);
            out.extend_from_slice(b"\":");
        }
        Field { is_kept, is_next: is_next || is_kept }
    }

    fn keep(self, byte: u8, out: &mut Vec<u8>) {
        if self.is_kept {
            out.push(byte);
        }
    }
}
