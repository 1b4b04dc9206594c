//! The JSON form of an export request, written anew as protobuf.
//!
//! Names in camelCase and in snake_case are known, others are skipped; `null` is as good
//! as nothing. Whole numbers may be texts and must fit their fields, ids are hexadecimal, bytes
//! are base64. Values that are nested too deeply are left empty, deep enough for their record
//! to be refused.

use std::borrow::Cow;
use std::str::FromStr;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::otlp::MAX_DEPTH;
use crate::push::json::{Cursor, JsonError, Value};
use crate::varint;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Bytes that the length of a message takes: it is written when the message is done, so
/// all have room for the longest. Padded varints are valid.
const LENGTH_LEN: usize = 5;

/// Writes the protobuf message that says the same as the JSON text `body`, replacing the
/// content of `out`. The message is at most about twice as long as the text.
pub fn transcode_json(body: &[u8], out: &mut Vec<u8>) -> Result<(), JsonError> {
    out.clear();
    let mut cursor = Cursor::new(body);
    if cursor.peek().is_none() {
        return Err(JsonError::Empty);
    }
    cursor.object(|cursor, name| match &*name.unescaped() {
        b"resourceLogs" | b"resource_logs" => repeated(cursor, 1, out, resource_logs),
        _ => cursor.skip_value().map(drop),
    })
}

type Each = fn(&mut Cursor<'_>, &mut Vec<u8>) -> Result<(), JsonError>;

fn resource_logs(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), JsonError> {
    cursor.object(|cursor, name| match &*name.unescaped() {
        b"resource" => message(cursor, 1, out, |cursor, out| {
            cursor.object(|cursor, name| match &*name.unescaped() {
                b"attributes" => attributes(cursor, 1, out),
                _ => cursor.skip_value().map(drop),
            })
        }),
        b"scopeLogs" | b"scope_logs" => repeated(cursor, 2, out, scope_logs),
        _ => cursor.skip_value().map(drop),
    })
}

fn scope_logs(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), JsonError> {
    cursor.object(|cursor, name| match &*name.unescaped() {
        b"scope" => message(cursor, 1, out, |cursor, out| {
            cursor.object(|cursor, name| match &*name.unescaped() {
                b"name" => text(cursor, 1, out),
                b"version" => text(cursor, 2, out),
                b"attributes" => attributes(cursor, 3, out),
                b"droppedAttributesCount" | b"dropped_attributes_count" => {
                    uint32(cursor, |number| put_varint(4, number.into(), out))
                }
                _ => cursor.skip_value().map(drop),
            })
        }),
        b"logRecords" | b"log_records" => repeated(cursor, 2, out, log_record),
        _ => cursor.skip_value().map(drop),
    })
}

fn log_record(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), JsonError> {
    cursor.object(|cursor, name| match &*name.unescaped() {
        b"timeUnixNano" | b"time_unix_nano" => uint64(cursor, |number| put_fixed64(1, number, out)),
        b"observedTimeUnixNano" | b"observed_time_unix_nano" => {
            uint64(cursor, |number| put_fixed64(11, number, out))
        }
        b"severityNumber" | b"severity_number" => severity_number(cursor, out),
        b"severityText" | b"severity_text" => text(cursor, 3, out),
        b"body" => any_value(cursor, 5, out, 0),
        b"attributes" => attributes(cursor, 6, out),
        b"droppedAttributesCount" | b"dropped_attributes_count" => {
            uint32(cursor, |number| put_varint(7, number.into(), out))
        }
        b"flags" => uint32(cursor, |number| {
            put_tag(8, 5, out);
            out.extend_from_slice(&number.to_le_bytes());
        }),
        b"traceId" | b"trace_id" => decoded(cursor, 9, out, from_hex),
        b"spanId" | b"span_id" => decoded(cursor, 10, out, from_hex),
        b"eventName" | b"event_name" => text(cursor, 12, out),
        _ => cursor.skip_value().map(drop),
    })
}

fn attributes(cursor: &mut Cursor<'_>, field: u32, out: &mut Vec<u8>) -> Result<(), JsonError> {
    key_values(cursor, field, out, 0)
}

fn key_values(
    cursor: &mut Cursor<'_>,
    field: u32,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), JsonError> {
    elements(cursor, |cursor| {
        message(cursor, field, out, |cursor, out| {
            cursor.object(|cursor, name| match &*name.unescaped() {
                b"key" => text(cursor, 1, out),
                b"value" => any_value(cursor, 2, out, depth),
                _ => cursor.skip_value().map(drop),
            })
        })
    })
}

fn any_value(
    cursor: &mut Cursor<'_>,
    field: u32,
    out: &mut Vec<u8>,
    depth: usize,
) -> Result<(), JsonError> {
    if depth > MAX_DEPTH {
        return message(cursor, field, out, |cursor, _| cursor.skip_value().map(drop));
    }
    message(cursor, field, out, |cursor, out| {
        cursor.object(|cursor, name| match &*name.unescaped() {
            b"stringValue" | b"string_value" => text(cursor, 1, out),
            b"boolValue" | b"bool_value" => {
                let value = match cursor.value()? {
                    Value::Other(b"true") => 1,
                    Value::Other(b"false") => 0,
                    Value::Other(b"null") => return Ok(()),
                    _ => return cursor.error("expected true or false"),
                };
                put_varint(2, value, out);
                Ok(())
            }
            b"intValue" | b"int_value" => {
                int64(cursor, |number| put_varint(3, number.cast_unsigned(), out))
            }
            b"doubleValue" | b"double_value" => double(cursor, out),
            b"arrayValue" | b"array_value" => message(cursor, 5, out, |cursor, out| {
                cursor.object(|cursor, name| match &*name.unescaped() {
                    b"values" => elements(cursor, |cursor| any_value(cursor, 1, out, depth + 1)),
                    _ => cursor.skip_value().map(drop),
                })
            }),
            b"kvlistValue" | b"kvlist_value" => message(cursor, 6, out, |cursor, out| {
                cursor.object(|cursor, name| match &*name.unescaped() {
                    b"values" => key_values(cursor, 1, out, depth + 1),
                    _ => cursor.skip_value().map(drop),
                })
            }),
            b"bytesValue" | b"bytes_value" => {
                decoded(cursor, 7, out, |text| BASE64.decode(text).ok())
            }
            _ => cursor.skip_value().map(drop),
        })
    })
}

/// Reads an array of messages.
fn repeated(
    cursor: &mut Cursor<'_>,
    field: u32,
    out: &mut Vec<u8>,
    each: Each,
) -> Result<(), JsonError> {
    elements(cursor, |cursor| message(cursor, field, out, each))
}

/// Visits the elements of an array, which may be `null` instead.
fn elements<'a>(
    cursor: &mut Cursor<'a>,
    mut each: impl FnMut(&mut Cursor<'a>) -> Result<(), JsonError>,
) -> Result<(), JsonError> {
    if cursor.take_null()? {
        return Ok(());
    }
    let mut started = false;
    while cursor.next_element(&mut started)? {
        each(cursor)?;
    }
    Ok(())
}

/// Writes a message of which `write` writes the content. `null` writes nothing.
fn message<'a>(
    cursor: &mut Cursor<'a>,
    field: u32,
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Cursor<'a>, &mut Vec<u8>) -> Result<(), JsonError>,
) -> Result<(), JsonError> {
    if cursor.take_null()? {
        return Ok(());
    }
    put_tag(field, 2, out);
    let start = out.len();
    out.extend_from_slice(&[0; LENGTH_LEN]);
    write(cursor, out)?;
    let len = out.len() - start - LENGTH_LEN;
    for (index, byte) in out[start..start + LENGTH_LEN].iter_mut().enumerate() {
        let more = if index + 1 < LENGTH_LEN { 0x80 } else { 0 };
        *byte = (len >> (7 * index)) as u8 & 0x7f | more;
    }
    Ok(())
}

fn put_tag(field: u32, wire_type: u32, out: &mut Vec<u8>) {
    varint::write(out, u64::from(field << 3 | wire_type));
}

fn put_varint(field: u32, value: u64, out: &mut Vec<u8>) {
    put_tag(field, 0, out);
    varint::write(out, value);
}

fn put_fixed64(field: u32, value: u64, out: &mut Vec<u8>) {
    put_tag(field, 1, out);
    out.extend_from_slice(&value.to_le_bytes());
}

fn put_bytes(field: u32, bytes: &[u8], out: &mut Vec<u8>) {
    put_tag(field, 2, out);
    varint::write(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn text(cursor: &mut Cursor<'_>, field: u32, out: &mut Vec<u8>) -> Result<(), JsonError> {
    if !cursor.take_null()? {
        put_bytes(field, &cursor.text("expected a string")?.unescaped(), out);
    }
    Ok(())
}

/// Writes the bytes that `decode` makes of a text.
fn decoded(
    cursor: &mut Cursor<'_>,
    field: u32,
    out: &mut Vec<u8>,
    decode: fn(&[u8]) -> Option<Vec<u8>>,
) -> Result<(), JsonError> {
    if cursor.take_null()? {
        return Ok(());
    }
    let text = cursor.text("expected a string")?;
    match decode(&text.unescaped()) {
        Some(bytes) => put_bytes(field, &bytes, out),
        None => return cursor.error("malformed hexadecimal or base64 text"),
    }
    Ok(())
}

fn from_hex(text: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let pairs = text.chunks(2).map(|pair| match pair {
        &[high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    });
    pairs.collect()
}

/// Reads a whole number, as a number or in a text; `expected` names the contents of its field.
/// `null` is no number.
fn whole_number<T: FromStr>(
    cursor: &mut Cursor<'_>,
    expected: &'static str,
    put: impl FnOnce(T),
) -> Result<(), JsonError> {
    let value = cursor.value()?;
    let digits = match &value {
        Value::Other(b"null") => return Ok(()),
        Value::Other(raw) => Cow::Borrowed(*raw),
        Value::Text(text) => text.unescaped(),
    };
    // `parse` would take a plus sign.
    let digits = std::str::from_utf8(&digits).ok().filter(|digits| !digits.starts_with('+'));
    match digits.and_then(|digits| digits.parse().ok()) {
        Some(number) => put(number),
        None => return cursor.error(expected),
    }
    Ok(())
}

fn uint64(cursor: &mut Cursor<'_>, put: impl FnOnce(u64)) -> Result<(), JsonError> {
    whole_number(cursor, "expected a whole number from 0 to 2^64 - 1", put)
}

fn int64(cursor: &mut Cursor<'_>, put: impl FnOnce(i64)) -> Result<(), JsonError> {
    whole_number(cursor, "expected a whole number from -2^63 to 2^63 - 1", put)
}

fn uint32(cursor: &mut Cursor<'_>, put: impl FnOnce(u32)) -> Result<(), JsonError> {
    whole_number(cursor, "expected a whole number from 0 to 2^32 - 1", put)
}

fn severity_number(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let mut ahead = *cursor;
    if let Value::Text(text) = ahead.value()?
        && let Some(number) = named_severity(&text.unescaped())
    {
        *cursor = ahead;
        put_varint(2, number, out);
        return Ok(());
    }
    whole_number(
        cursor,
        "expected a severity, a whole number of 32 bits or a name",
        |number: i32| {
            put_varint(2, i64::from(number).cast_unsigned(), out);
        },
    )
}

/// The number of a name such as `SEVERITY_NUMBER_INFO2`.
fn named_severity(name: &[u8]) -> Option<u64> {
    let name = std::str::from_utf8(name).ok()?.strip_prefix("SEVERITY_NUMBER_")?;
    if name == "UNSPECIFIED" {
        return Some(0);
    }
    let level = name.trim_end_matches(['2', '3', '4']);
    let base =
        ["TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL"].iter().position(|&n| n == level)?;
    let step = match &name[level.len()..] {
        "" => 0,
        "2" => 1,
        "3" => 2,
        "4" => 3,
        _ => return None,
    };
    Some(4 * base as u64 + 1 + step)
}

fn double(cursor: &mut Cursor<'_>, out: &mut Vec<u8>) -> Result<(), JsonError> {
    let value = cursor.value()?;
    let number = match &value {
        Value::Other(b"null") => return Ok(()),
        Value::Other(raw) => parse_double(raw),
        Value::Text(text) => parse_double(&text.unescaped()),
    };
    match number {
        Some(number) => put_fixed64(4, number.to_bits(), out),
        None => return cursor.error("expected a number that a double can hold"),
    }
    Ok(())
}

/// A number in digits must be one that 64 bits hold; there are words for the others.
fn parse_double(text: &[u8]) -> Option<f64> {
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.is_finite() || !text.iter().any(u8::is_ascii_digit)).then_some(number)
}
