//! Values of attributes and bodies, and how they are printed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::encode::write_json_bytes;
use crate::otlp::MAX_DEPTH;
use crate::otlp::fault::RecordError;
use crate::otlp::message::{Attributes, CHECKED, Messages};
use crate::push::protobuf::{Fields, ProtobufError};

/// A value. Arrays and maps are the messages that hold them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum AnyValue<'a> {
    /// There is none.
    Empty,
    /// A text, which need not be UTF-8.
    Text(&'a [u8]),
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Double(f64),
    /// An `ArrayValue`.
    Array(&'a [u8]),
    /// A `KeyValueList`.
    Map(&'a [u8]),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// Reads an `AnyValue`; of several values the last counts. Elements of arrays and maps are
/// not read.
pub(super) fn read_any(message: &[u8]) -> Result<AnyValue<'_>, ProtobufError> {
    let mut any = AnyValue::Empty;
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.next()? {
        any = match number {
            1 => AnyValue::Text(value.bytes("StringValue")?),
            2 => AnyValue::Bool(value.varint("BoolValue")? != 0),
            3 => AnyValue::Int(value.varint("IntValue")?.cast_signed()),
            4 => AnyValue::Double(f64::from_bits(value.fixed64("DoubleValue")?)),
            5 => AnyValue::Array(value.bytes("ArrayValue")?),
            6 => AnyValue::Map(value.bytes("KvlistValue")?),
            7 => AnyValue::Bytes(value.bytes("BytesValue")?),
            _ => any,
        };
    }
    Ok(any)
}

impl<'a> AnyValue<'a> {
    /// Whether nothing is left of the value when it is printed.
    pub fn is_empty(&self) -> bool {
        matches!(self, AnyValue::Empty | AnyValue::Text(b"") | AnyValue::Bytes(b""))
    }

    /// Refuses a value with others in it more than [`MAX_DEPTH`] levels deep. Whatever walks
    /// over a value asks this first: deeper values were never checked.
    pub(super) fn check_depth(&self) -> Result<(), RecordError> {
        self.check_depth_from(0)
    }

    fn check_depth_from(&self, depth: usize) -> Result<(), RecordError> {
        if depth > MAX_DEPTH {
            return Err(RecordError::TooDeep);
        }
        match *self {
            AnyValue::Map(map) => {
                AnyValue::pairs(map).try_for_each(|(_, value)| value.check_depth_from(depth + 1))
            }
            AnyValue::Array(array) => AnyValue::elements(array)
                .try_for_each(|element| element.check_depth_from(depth + 1)),
            _ => Ok(()),
        }
    }

    fn elements(array: &'a [u8]) -> impl Iterator<Item = AnyValue<'a>> {
        let elements = Messages { fields: Fields::new(array), number: 1 };
        elements.map(|element| read_any(element).expect(CHECKED))
    }

    /// The pairs of a map.
    pub(super) fn pairs(map: &'a [u8]) -> Attributes<'a> {
        Attributes::new(map, 1)
    }

    /// Appends the value, whose depth was checked, as text: texts as they are, bytes in
    /// base64, arrays and maps as compact JSON with sorted names.
    pub fn write_text(&self, out: &mut Vec<u8>) {
        match *self {
            AnyValue::Empty => {}
            AnyValue::Text(text) => out.extend_from_slice(text),
            AnyValue::Bytes(bytes) => write_base64(bytes, out),
            AnyValue::Double(number) => write_double(number, out),
            AnyValue::Bool(_) | AnyValue::Int(_) | AnyValue::Array(_) | AnyValue::Map(_) => {
                self.write_json(out);
            }
        }
    }

    /// Appends the value as JSON. Numbers that JSON does not know become texts.
    fn write_json(&self, out: &mut Vec<u8>) {
        match *self {
            AnyValue::Empty => out.extend_from_slice(b"null"),
            AnyValue::Text(text) => write_json_bytes(text, out),
            AnyValue::Bool(true) => out.extend_from_slice(b"true"),
            AnyValue::Bool(false) => out.extend_from_slice(b"false"),
            AnyValue::Int(number) => {
                out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            }
            AnyValue::Double(number) if number.is_finite() => write_double(number, out),
            AnyValue::Double(number) => {
                out.push(b'"');
                write_double(number, out);
                out.push(b'"');
            }
            AnyValue::Bytes(bytes) => {
                out.push(b'"');
                write_base64(bytes, out);
                out.push(b'"');
            }
            AnyValue::Array(array) => {
                out.push(b'[');
                for (index, element) in AnyValue::elements(array).enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    element.write_json(out);
                }
                out.push(b']');
            }
            AnyValue::Map(map) => {
                let mut pairs: Vec<_> = AnyValue::pairs(map).collect();
                // Of equal names the last counts: the sort is stable.
                pairs.sort_by(|a, b| a.0.cmp(b.0));
                pairs.dedup_by(|later, kept| {
                    let equal = later.0 == kept.0;
                    if equal {
                        *kept = *later;
                    }
                    equal
                });
                out.push(b'{');
                for (index, (name, value)) in pairs.iter().enumerate() {
                    if index > 0 {
                        out.push(b',');
                    }
                    write_json_bytes(name, out);
                    out.push(b':');
                    value.write_json(out);
                }
                out.push(b'}');
            }
        }
    }
}

fn write_base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(STANDARD.encode(bytes).as_bytes());
}

/// Appends the shortest digits that read back, with an exponent below 1e-6 and from
/// 1e21 on, as JSON writers print numbers.
fn write_double(number: f64, out: &mut Vec<u8>) {
    let text = if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        if number > 0.0 { "+Inf".to_owned() } else { "-Inf".to_owned() }
    } else if number == 0.0 || (1e-6..1e21).contains(&number.abs()) {
        number.to_string()
    } else {
        let text = format!("{number:e}");
        if text.contains("e-") { text } else { text.replace('e', "e+") }
    };
    out.extend_from_slice(text.as_bytes());
}
