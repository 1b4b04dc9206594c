//! Entries on their way from one server to another: one line of JSON each, as an export writes them
//! and an import reads them.
//!
//! ```json
//! {"timestamp":"1700000000000000000","labels":{"app":"a"},"metadata":{"pod":"p"},"line":"text"}
//! ```
//!
//! `parsed` beside them has labels that a query has made; readers leave them out. A line that is no
//! UTF-8 has its bytes in `line_base64`, too, and these count. Other lines tell where an export is:
//! `{"cursor":"..."}`, `{"warning":"..."}`, and at last `{"end":true,"entries":1}` or
//! `{"error":"..."}`.
//!
//! Guarantees: what [`write_entry`] writes, [`read_line`] reads as the same entry. A field that is
//! not known refuses its line, so that nothing is dropped without a word. Failures are a
//! [`TransferError`] of one line; lines do not depend on each other.

mod buffer;

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::encode::{write_json_line, write_json_text, write_label_object};
use crate::labels::is_valid_label_name;
use crate::push::json::{Cursor, JsonError, RawText};
use crate::records::Records;

pub use buffer::{LINE_MAX_BYTES, LineBuffer, TooLong};

/// Most characters of a name that an error repeats.
const SHOWN_CHARS: usize = 64;

/// What a line is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TransferLine {
    /// An entry, which is a record now.
    Entry,
    /// What came before is whole, and an export may go on from here.
    Cursor(String),
    /// A part of the stored entries could not be read.
    Warning(String),
    /// The export is complete.
    End {
        /// So many entries are in it.
        entries: u64,
    },
    /// The export was cut off.
    Failed(String),
}

/// Why a line cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TransferError {
    /// It is no JSON.
    #[error("byte {}: {message}", offset_bytes + 1)]
    Json {
        /// Where, from 0.
        offset_bytes: usize,
        /// The problem, in words.
        message: &'static str,
    },
    /// Something follows the object.
    #[error("the line has something behind its object")]
    Trailing,
    /// A field is missing.
    #[error("the field {0} is missing")]
    Missing(&'static str),
    /// A field is not known.
    #[error("the field {0:?} is not known")]
    Unknown(String),
    /// The time is no number.
    #[error("the field timestamp is not a number of nanoseconds since 1970")]
    Time,
    /// A name is no name of a label.
    #[error("{0:?} is not the name of a label")]
    LabelName(String),
    /// The labels are not UTF-8.
    #[error("labels are not UTF-8")]
    LabelText,
    /// The bytes are no Base64.
    #[error("the field line_base64 is not Base64")]
    Base64,
}

impl From<JsonError> for TransferError {
    fn from(error: JsonError) -> TransferError {
        match error {
            JsonError::Empty => TransferError::Json { offset_bytes: 0, message: "unexpected end" },
            JsonError::Invalid { offset_bytes, message } => {
                TransferError::Json { offset_bytes, message }
            }
        }
    }
}

/// The name of the cursor in the metadata of a Parquet file that is a part of an export.
pub const PARQUET_CURSOR_KEY: &str = "logsvc.cursor";

/// The labels of an entry by their category; names ascend.
#[derive(Clone, Debug)]
pub struct EntryLabels<L, M, P> {
    /// Of its stream.
    pub labels: L,
    /// Structured metadata.
    pub metadata: M,
    /// Made by a query.
    pub parsed: P,
}

/// Writes an entry as a line.
pub fn write_entry<'a, L, M, P>(
    timestamp_ns: i64,
    of: EntryLabels<L, M, P>,
    line: &[u8],
    out: &mut Vec<u8>,
) where
    L: Iterator<Item = (&'a str, &'a str)>,
    M: Iterator<Item = (&'a str, &'a str)>,
    P: Iterator<Item = (&'a str, &'a str)>,
{
    out.extend_from_slice(b"{\"timestamp\":\"");
    out.extend_from_slice(itoa::Buffer::new().format(timestamp_ns).as_bytes());
    out.extend_from_slice(b"\",\"labels\":");
    write_label_object(of.labels, out);
    write_some(b",\"metadata\":", of.metadata, out);
    write_some(b",\"parsed\":", of.parsed, out);
    out.extend_from_slice(b",\"line\":");
    write_json_line(line, out);
    if std::str::from_utf8(line).is_err() {
        out.extend_from_slice(b",\"line_base64\":\"");
        out.extend_from_slice(STANDARD.encode(line).as_bytes());
        out.push(b'"');
    }
    out.extend_from_slice(b"}\n");
}

/// Writes pairs, if there are any.
fn write_some<'a>(key: &[u8], pairs: impl Iterator<Item = (&'a str, &'a str)>, out: &mut Vec<u8>) {
    let mut pairs = pairs.peekable();
    if pairs.peek().is_some() {
        out.extend_from_slice(key);
        write_label_object(pairs, out);
    }
}

/// Writes a line that is no entry. [`TransferLine::Entry`] is none.
pub fn write_control(line: &TransferLine, out: &mut Vec<u8>) {
    let (key, text) = match line {
        TransferLine::Entry => return,
        TransferLine::Cursor(text) => ("cursor", text),
        TransferLine::Warning(text) => ("warning", text),
        TransferLine::Failed(text) => ("error", text),
        TransferLine::End { entries } => {
            out.extend_from_slice(b"{\"end\":true,\"entries\":");
            out.extend_from_slice(itoa::Buffer::new().format(*entries).as_bytes());
            out.extend_from_slice(b"}\n");
            return;
        }
    };
    out.extend_from_slice(b"{\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    write_json_text(text, out);
    out.extend_from_slice(b"}\n");
}

/// What a line has besides the labels, which are in the record already.
#[derive(Default)]
struct Fields<'a> {
    timestamp_ns: Option<i64>,
    line: Option<RawText<'a>>,
    bytes: Option<Vec<u8>>,
    has_labels: bool,
    control: Option<TransferLine>,
    ends: bool,
    entries: Option<u64>,
}

/// Reads a line. If it is an entry, there is one record more then.
///
/// # Errors
/// It cannot be read. There is no record more.
pub fn read_line(line: &[u8], records: &mut Records) -> Result<TransferLine, TransferError> {
    records.begin(None);
    let read = read_fields(line, records).and_then(|fields| finish(fields, records));
    if read.as_ref().is_ok_and(|read| *read == TransferLine::Entry) {
        records.end();
    } else {
        records.cancel();
    }
    read
}

fn read_fields<'a>(line: &'a [u8], records: &mut Records) -> Result<Fields<'a>, TransferError> {
    let mut cursor = Cursor::new(line);
    let mut fields = Fields::default();
    let mut fault = None;
    cursor
        .object(|cursor, name| {
            let read = read_field(cursor, name, &mut fields, records);
            read.map_err(|error| match error {
                FieldError::Json(error) => error,
                FieldError::Own(error) => {
                    fault = Some(error);
                    // Only to leave the object.
                    JsonError::Empty
                }
            })
        })
        .map_err(|error| fault.take().unwrap_or_else(|| error.into()))?;
    if cursor.peek().is_some() {
        return Err(TransferError::Trailing);
    }
    Ok(fields)
}

enum FieldError {
    Json(JsonError),
    Own(TransferError),
}

impl From<JsonError> for FieldError {
    fn from(error: JsonError) -> FieldError {
        FieldError::Json(error)
    }
}

impl From<TransferError> for FieldError {
    fn from(error: TransferError) -> FieldError {
        FieldError::Own(error)
    }
}

fn read_field<'a>(
    cursor: &mut Cursor<'a>,
    name: RawText<'a>,
    fields: &mut Fields<'a>,
    records: &mut Records,
) -> Result<(), FieldError> {
    let text = |cursor: &mut Cursor<'a>| -> Result<String, FieldError> {
        let text = cursor.text("expected a string")?;
        Ok(String::from_utf8_lossy(&text.unescaped()).into_owned())
    };
    match &*name.unescaped() {
        b"timestamp" => {
            let digits = match cursor.peek() {
                Some(b'"') => cursor.text("expected a string")?.unescaped(),
                _ => cursor.skip_value()?.into(),
            };
            let time = std::str::from_utf8(&digits).ok().and_then(|digits| digits.parse().ok());
            fields.timestamp_ns = Some(time.ok_or(TransferError::Time)?);
        }
        b"labels" => {
            fields.has_labels = true;
            pairs(cursor, |name, value| {
                let utf8 = |text| std::str::from_utf8(text).map_err(|_| TransferError::LabelText);
                if !is_valid_label_name(name) {
                    return Err(TransferError::LabelName(shown(name)));
                }
                records.exact_label(utf8(name)?, utf8(value)?);
                Ok(())
            })?;
        }
        b"metadata" => pairs(cursor, |name, value| {
            records.metadata(name, value);
            Ok(())
        })?,
        b"parsed" => {
            cursor.skip_value()?;
        }
        b"line" => fields.line = Some(cursor.text("expected a string")?),
        b"line_base64" => {
            let text = cursor.text("expected a string")?.unescaped();
            fields.bytes = Some(STANDARD.decode(&*text).map_err(|_| TransferError::Base64)?);
        }
        b"cursor" => fields.control = Some(TransferLine::Cursor(text(cursor)?)),
        b"warning" => fields.control = Some(TransferLine::Warning(text(cursor)?)),
        b"error" => fields.control = Some(TransferLine::Failed(text(cursor)?)),
        b"end" => fields.ends = cursor.skip_value()? == b"true",
        b"entries" => {
            let digits = std::str::from_utf8(cursor.skip_value()?).ok();
            fields.entries = digits.and_then(|digits| digits.parse().ok());
        }
        other => return Err(TransferError::Unknown(shown(other)).into()),
    }
    Ok(())
}

/// Reads an object whose values are strings.
fn pairs<'a>(
    cursor: &mut Cursor<'a>,
    mut each: impl FnMut(&[u8], &[u8]) -> Result<(), TransferError>,
) -> Result<(), FieldError> {
    let mut fault = None;
    let read = cursor.object(|cursor, name| {
        let value = cursor.text("expected a string")?;
        each(&name.unescaped(), &value.unescaped()).map_err(|error| {
            fault = Some(error);
            JsonError::Empty
        })
    });
    match (fault, read) {
        (Some(fault), _) => Err(fault.into()),
        (None, read) => Ok(read?),
    }
}

fn finish(fields: Fields<'_>, records: &mut Records) -> Result<TransferLine, TransferError> {
    let Fields { timestamp_ns, line, bytes, has_labels, control, ends, entries } = fields;
    let is_entry = timestamp_ns.is_some() || line.is_some() || bytes.is_some() || has_labels;
    if !is_entry && ends {
        let entries = entries.ok_or(TransferError::Missing("entries"))?;
        return Ok(TransferLine::End { entries });
    }
    if !is_entry && let Some(control) = control {
        return Ok(control);
    }
    records.time(timestamp_ns.ok_or(TransferError::Missing("timestamp"))?);
    if !has_labels {
        return Err(TransferError::Missing("labels"));
    }
    match (bytes, line) {
        (Some(bytes), _) => records.line(&bytes),
        (None, Some(text)) => records.line(&text.unescaped()),
        (None, None) => return Err(TransferError::Missing("line")),
    }
    Ok(TransferLine::Entry)
}

/// The start of a name.
fn shown(name: &[u8]) -> String {
    let mut text = String::new();
    let name = String::from_utf8_lossy(name);
    text.extend(name.chars().take(SHOWN_CHARS));
    if name.chars().nth(SHOWN_CHARS).is_some() {
        // Into a text.
        let _ = write!(text, "...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Labels;

    type Pairs<'a> = &'a [(&'a str, &'a str)];

    fn written(time: i64, labels: Pairs, metadata: Pairs, parsed: Pairs, line: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let of = EntryLabels {
            labels: labels.iter().copied(),
            metadata: metadata.iter().copied(),
            parsed: parsed.iter().copied(),
        };
        write_entry(time, of, line, &mut out);
        out
    }

    #[test]
    fn an_entry_is_a_line_of_json() {
        let line = written(7, &[("a", "b")], &[], &[], b"x\n\"y\"");
        let expected =
            b"{\"timestamp\":\"7\",\"labels\":{\"a\":\"b\"},\"line\":\"x\\n\\\"y\\\"\"}\n";
        assert_eq!(line, expected);
        let line = written(-7, &[], &[("m", "1")], &[("p", "2")], b"\xff");
        let expected = "{\"timestamp\":\"-7\",\"labels\":{},\"metadata\":{\"m\":\"1\"},\
                        \"parsed\":{\"p\":\"2\"},\"line\":\"\\ufffd\",\"line_base64\":\"/w==\"}\n";
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let bad = "\u{1}\u{0}\"\\\u{7f}\u{2028}\u{feff}\u{1f600}<&>\n\r\t";
        for time in [i64::MIN, -1, 0, i64::MAX - 1] {
            for line in [&b""[..], b"a", bad.as_bytes(), b"\xff\x00\xc3(", "\u{fffd}".as_bytes()] {
                for labels in [&[][..], &[("a", "b"), ("a__b", bad), ("z", "1")]] {
                    for metadata in [&[][..], &[("m", bad), ("trace_id", "0af")]] {
                        let text = written(time, labels, metadata, metadata, line);
                        let text = text.strip_suffix(b"\n").expect("a line");
                        assert!(!text.contains(&b'\n'));
                        let mut records = Records::new();
                        let read = read_line(text, &mut records);
                        assert_eq!(read, Ok(TransferLine::Entry));
                        let found: Labels = records.labels(0).parse().unwrap();
                        assert!(found.iter().eq(labels.iter().copied()), "{found:?}");
                        let mut pairs = Vec::new();
                        let entry = records.entry(0, &mut pairs);
                        assert_eq!((entry.timestamp_ns, entry.line), (Some(time), line));
                        let expected = metadata.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes()));
                        assert!(entry.metadata.iter().eq(expected));
                    }
                }
            }
        }
    }

    #[test]
    fn lines_that_are_no_entries_come_back() {
        for line in [
            TransferLine::Cursor("1-00ff".into()),
            TransferLine::Warning("a \"b\"".into()),
            TransferLine::Failed("stopped\n".into()),
            TransferLine::End { entries: u64::MAX },
        ] {
            let (mut out, mut records) = (Vec::new(), Records::new());
            write_control(&line, &mut out);
            assert_eq!(read_line(out.trim_ascii_end(), &mut records), Ok(line));
            assert!(records.is_empty());
        }
    }

    #[test]
    fn other_writers_may_order_and_omit_fields() {
        let mut records = Records::new();
        for line in [
            r#" { "line" : "x", "labels":{"a":"b"}, "timestamp": 12 } "#,
            r#"{"parsed":{"x":[1,{"y":null}]},"timestamp":"12","labels":{"a":"b"},"line":"x"}"#,
            r#"{"line":"other","line":"x","timestamp":"1","timestamp":"12","labels":{"a":"b"}}"#,
        ] {
            assert_eq!(read_line(line.as_bytes(), &mut records), Ok(TransferLine::Entry), "{line}");
            let mut pairs = Vec::new();
            let entry = records.entry(records.len() - 1, &mut pairs);
            assert_eq!((entry.timestamp_ns, entry.line), (Some(12), &b"x"[..]), "{line}");
        }
    }

    #[test]
    fn a_bad_line_is_refused_and_leaves_nothing() {
        let mut records = Records::new();
        for (line, text) in [
            ("", "byte 1: expected an object"),
            ("[]", "byte 1: expected an object"),
            ("{}", "the field timestamp is missing"),
            (r#"{"labels":{"a":"b"},"line":"x"}"#, "the field timestamp is missing"),
            (r#"{"timestamp":"1","line":"x"}"#, "the field labels is missing"),
            (r#"{"timestamp":"1","labels":{"a":"b"}}"#, "the field line is missing"),
            (r#"{"timestamp":"1","labels":{"a":"b"},"line":"x""#, "byte 47: expected ',' or '}'"),
            (r#"{"timestamp":"1","labels":{"a":"b"},"line":"x"} {}"#, "behind its object"),
            (r#"{"timestamp":"soon","labels":{"a":"b"},"line":"x"}"#, "nanoseconds"),
            (r#"{"timestamp":1.5,"labels":{"a":"b"},"line":"x"}"#, "nanoseconds"),
            (r#"{"timestamp":"9223372036854775808","labels":{},"line":"x"}"#, "nanoseconds"),
            (r#"{"timestamp":"1","labels":{"a":1},"line":"x"}"#, "expected a string"),
            (r#"{"timestamp":"1","labels":{"a.b":"c"},"line":"x"}"#, r#""a.b" is not the name"#),
            (r#"{"timestamp":"1","labels":{"":"c"},"line":"x"}"#, r#""" is not the name"#),
            (r#"{"timestamp":"1","labels":{"a":"b"},"line":7}"#, "expected a string"),
            (r#"{"timestamp":"1","labels":{"a":"b"},"line":"x","extra":1}"#, r#""extra" is not"#),
            (r#"{"timestamp":"1","labels":{"a":"b"},"line_base64":"%"}"#, "not Base64"),
            (r#"{"end":true}"#, "the field entries is missing"),
            (r#"{"end":false,"entries":1}"#, "the field timestamp is missing"),
        ] {
            let error = read_line(line.as_bytes(), &mut records).expect_err(line).to_string();
            assert!(error.contains(text), "{line}: {error}");
            assert!(records.is_empty(), "{line}");
        }
        let error = read_line(format!("{{\"{}\":1}}", "n".repeat(1000)).as_bytes(), &mut records);
        assert!(error.expect_err("unknown").to_string().len() < 100);
    }
}
