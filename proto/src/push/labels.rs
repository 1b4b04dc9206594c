//! The labels of a pushed stream, before they are parsed.

use std::borrow::Cow;

use crate::go::quote::write_quoted_bytes;
use crate::labels::{
    LabelParseError, Labels, MAX_LABEL_STRING_LEN_BYTES, is_valid_label_name, parse_labels,
};
use crate::push::json::{Cursor, RawText, Value};

/// How the labels of a stream are written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum LabelForm {
    /// The series syntax: `{app="x"}`.
    Text,
    /// A JSON object.
    JsonObject,
    /// The series syntax inside a JSON string, without its quotes, with escapes.
    JsonText,
    /// The encoded form of a label set.
    Encoded,
}

/// The labels of a stream as sent. Form and bytes together are a cache key:
/// equal keys have equal labels, so known streams need not be parsed again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LabelSource<'a> {
    /// How they are written.
    pub form: LabelForm,
    /// The bytes as sent.
    pub bytes: &'a [u8],
}

impl<'a> LabelSource<'a> {
    /// A label string.
    pub fn text(bytes: &'a [u8]) -> LabelSource<'a> {
        LabelSource { form: LabelForm::Text, bytes }
    }

    /// A set that was put together already.
    pub fn labels(labels: &'a Labels) -> LabelSource<'a> {
        LabelSource::encoded(labels.as_bytes())
    }

    /// The encoded form of a set.
    pub(crate) fn encoded(bytes: &'a [u8]) -> LabelSource<'a> {
        LabelSource { form: LabelForm::Encoded, bytes }
    }

    pub(super) fn json_object(bytes: &'a [u8]) -> LabelSource<'a> {
        LabelSource { form: LabelForm::JsonObject, bytes }
    }

    pub(super) fn json_text(text: RawText<'a>) -> LabelSource<'a> {
        let form = if text.has_escapes() { LabelForm::JsonText } else { LabelForm::Text };
        LabelSource { form, bytes: text.raw() }
    }

    /// Parses the labels. A JSON object is judged as its printed label set would
    /// be: an error tells the position in that text.
    pub fn parse(&self) -> Result<Labels, LabelParseError> {
        if self.bytes.len() > MAX_LABEL_STRING_LEN_BYTES {
            return Err(LabelParseError::TooLarge {
                len_bytes: self.bytes.len(),
                max_bytes: MAX_LABEL_STRING_LEN_BYTES,
            });
        }
        match self.form {
            LabelForm::Text => parse_labels(self.bytes),
            LabelForm::JsonText => {
                let mut text = Vec::new();
                RawText::of_checked(self.bytes).unescape_into(&mut text);
                parse_labels(&text)
            }
            LabelForm::JsonObject => parse_object(self.bytes),
            LabelForm::Encoded => Labels::from_bytes(self.bytes).map_err(|error| {
                LabelParseError::Syntax { line: 1, column: 1, message: error.to_string() }
            }),
        }
    }
}

/// A name and a value that need not be UTF-8.
type BytesPair<'a> = (Cow<'a, [u8]>, Cow<'a, [u8]>);

fn parse_object(object: &[u8]) -> Result<Labels, LabelParseError> {
    let mut pairs: Vec<BytesPair<'_>> = Vec::new();
    let mut cursor = Cursor::new(object);
    cursor
        .object(|cursor, name| {
            let value = match cursor.value()? {
                Value::Text(text) => text.unescaped(),
                // Anything but a string stands for itself, as it was written.
                Value::Other(raw) => Cow::Borrowed(raw),
            };
            pairs.push((name.unescaped(), value));
            Ok(())
        })
        .expect("the body was checked");
    // Of equal names the last counts: a stable sort keeps them in order.
    pairs.sort_by(|a, b| a.0.cmp(&b.0));
    pairs.dedup_by(|later, kept| {
        let equal = later.0 == kept.0;
        if equal {
            std::mem::swap(&mut later.1, &mut kept.1);
        }
        equal
    });
    let texts: Option<Vec<(&str, &str)>> = pairs
        .iter()
        .map(|(name, value)| {
            let name = std::str::from_utf8(name).ok().filter(|n| is_valid_label_name(n.as_bytes()));
            Some((name?, std::str::from_utf8(value).ok()?))
        })
        .collect();
    match texts {
        Some(texts) => Ok(Labels::from_pairs(texts).expect("names are valid and unique")),
        None => Err(refusal(&pairs)),
    }
}

/// The fault of a set with a malformed name or value.
fn refusal(pairs: &[BytesPair<'_>]) -> LabelParseError {
    let mut printed = Vec::new();
    printed.push(b'{');
    for (index, (name, value)) in pairs.iter().enumerate() {
        if index > 0 {
            printed.extend_from_slice(b", ");
        }
        printed.extend_from_slice(name);
        printed.push(b'=');
        write_quoted_bytes(value, &mut printed);
    }
    printed.push(b'}');
    match parse_labels(&printed) {
        Err(error) => error,
        // A name such as `a="x",b` prints to something that parses.
        Ok(_) => LabelParseError::Syntax {
            line: 1,
            column: 2,
            message: "label names must match [a-zA-Z_][a-zA-Z0-9_]*".to_owned(),
        },
    }
}
