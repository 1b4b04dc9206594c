//! The protobuf push, walked in place: no allocation, every text borrowed.
//!
//! ```text
//! PushRequest   { repeated StreamAdapter streams = 1; string format = 2; }
//! StreamAdapter { string labels = 1; repeated EntryAdapter entries = 2; uint64 hash = 3; }
//! EntryAdapter  { google.protobuf.Timestamp timestamp = 1; string line = 2;
//!                 repeated LabelPairAdapter structuredMetadata = 3;
//!                 repeated LabelPairAdapter parsed = 4; }
//! LabelPairAdapter { string name = 1; string value = 2; }
//! Timestamp     { int64 seconds = 1; int32 nanos = 2; }
//! ```
//!
//! `format`, `hash`, `parsed` and unknown fields are skipped. A field that may
//! occur once and is repeated: the last one counts. Groups are refused; nothing
//! has used them since proto2. Texts are not checked for UTF-8 here. Error texts
//! equal the texts of Go's generated decoders, which client authors know.

mod error;

pub use error::ProtobufError;

use crate::push::entries::EntrySource;
use crate::push::listed::{EntryList, ListedStreams};
use crate::push::{EntryRef, LabelSource, MetadataRef, StreamRef, Totals};
use crate::varint;

/// Year 1, the zero value of Go's `time.Time`, in seconds since the Unix epoch.
const ZERO_TIME_SECONDS: i64 = -62_135_596_800;
/// The largest field number of the protobuf encoding.
const MAX_FIELD_NUMBER: u64 = (1 << 29) - 1;

/// The rest of a message.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// The value of a field.
#[derive(Clone, Copy)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
}

impl<'a> Value<'a> {
    #[inline]
    pub(crate) fn bytes(self, field: &'static str) -> Result<&'a [u8], ProtobufError> {
        match self {
            Value::Bytes(bytes) => Ok(bytes),
            other => Err(ProtobufError::WrongWireType { wire_type: other.wire_type(), field }),
        }
    }

    #[inline]
    pub(crate) fn varint(self, field: &'static str) -> Result<u64, ProtobufError> {
        match self {
            Value::Varint(value) => Ok(value),
            other => Err(ProtobufError::WrongWireType { wire_type: other.wire_type(), field }),
        }
    }

    #[inline]
    pub(crate) fn fixed64(self, field: &'static str) -> Result<u64, ProtobufError> {
        match self {
            Value::Fixed64(value) => Ok(value),
            other => Err(ProtobufError::WrongWireType { wire_type: other.wire_type(), field }),
        }
    }

    #[inline]
    pub(crate) fn fixed32(self, field: &'static str) -> Result<u32, ProtobufError> {
        match self {
            Value::Fixed32(value) => Ok(value),
            other => Err(ProtobufError::WrongWireType { wire_type: other.wire_type(), field }),
        }
    }

    /// A signed number of 32 bits: a negative one is sent with its sign in all 64 bits.
    pub(crate) fn int32(self, field: &'static str) -> Result<i32, ProtobufError> {
        let number = self.varint(field)?.cast_signed();
        i32::try_from(number)
            .map_err(|_| ProtobufError::OutOfRange { field, number: number.into() })
    }

    /// A number from 0 to 2^32 - 1.
    pub(crate) fn uint32(self, field: &'static str) -> Result<u32, ProtobufError> {
        let number = self.varint(field)?;
        u32::try_from(number)
            .map_err(|_| ProtobufError::OutOfRange { field, number: number.into() })
    }

    fn wire_type(self) -> u8 {
        match self {
            Value::Varint(_) => 0,
            Value::Fixed64(_) => 1,
            Value::Bytes(_) => 2,
            Value::Fixed32(_) => 5,
        }
    }
}

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { bytes, position: 0 }
    }

    /// The next field: number and value.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Value<'a>)>, ProtobufError> {
        self.step()
    }

    /// Like [`Fields::next`], as a part of the caller: for the loops that each entry of a
    /// push goes through.
    #[inline(always)]
    fn step(&mut self) -> Result<Option<(u32, Value<'a>)>, ProtobufError> {
        if self.position >= self.bytes.len() {
            return Ok(None);
        }
        let tag = varint::read(self.bytes, &mut self.position)?;
        let number = tag >> 3;
        if number == 0 || number > MAX_FIELD_NUMBER {
            return Err(ProtobufError::IllegalTag(number));
        }
        let value = match (tag & 7) as u8 {
            0 => Value::Varint(varint::read(self.bytes, &mut self.position)?),
            1 => Value::Fixed64(u64::from_le_bytes(self.take_array()?)),
            2 => {
                let len_bytes = varint::read(self.bytes, &mut self.position)?;
                Value::Bytes(self.take(len_bytes)?)
            }
            5 => Value::Fixed32(u32::from_le_bytes(self.take_array()?)),
            wire_type => return Err(ProtobufError::IllegalWireType(wire_type)),
        };
        Ok(Some((number as u32, value)))
    }

    #[inline]
    fn take_array<const N: usize>(&mut self) -> Result<[u8; N], ProtobufError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N as u64)?);
        Ok(array)
    }

    #[inline]
    fn take(&mut self, len_bytes: u64) -> Result<&'a [u8], ProtobufError> {
        let rest = &self.bytes[self.position..];
        if len_bytes > rest.len() as u64 {
            return Err(if len_bytes > i64::MAX as u64 {
                ProtobufError::NegativeLength
            } else {
                ProtobufError::UnexpectedEof
            });
        }
        self.position += len_bytes as usize;
        Ok(&rest[..len_bytes as usize])
    }
}

/// A push message that was checked to the last byte.
#[derive(Clone, Copy, Debug)]
pub struct ProtobufPush<'a> {
    body: &'a [u8],
    /// Every stream has its labels as its first field and nowhere else, as all
    /// encoders write them; so they are found without walking the stream.
    labels_lead: bool,
    /// Where the entries are, if that was noted.
    listed: Option<ListedStreams<'a>>,
}

impl<'a> ProtobufPush<'a> {
    /// Checks a message and counts its streams, entries and bytes.
    pub fn parse(body: &'a [u8]) -> Result<(ProtobufPush<'a>, Totals), ProtobufError> {
        let (labels_lead, totals) = check(body, &mut EntryList::full())?;
        Ok((ProtobufPush { body, labels_lead, listed: None }, totals))
    }

    /// Like [`ProtobufPush::parse`], and notes the places of the entries in `list`, if it has room.
    pub fn parse_listed(
        body: &'a [u8],
        list: &'a mut EntryList,
    ) -> Result<(ProtobufPush<'a>, Totals), ProtobufError> {
        list.begin(body);
        let (labels_lead, totals) = check(body, list)?;
        Ok((ProtobufPush { body, labels_lead, listed: list.streams(body) }, totals))
    }

    /// The streams in the order sent.
    pub fn streams(&self) -> Streams<'a> {
        let ProtobufPush { body, labels_lead, listed } = *self;
        Streams { fields: Fields::new(body), labels_lead, listed }
    }
}

/// Checks a message. Returns whether the labels of all its streams come first and once, and the
/// totals of the message.
fn check(body: &[u8], list: &mut EntryList) -> Result<(bool, Totals), ProtobufError> {
    let (mut labels_lead, mut totals) = (true, Totals::default());
    let mut fields = Fields::new(body);
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => {
                labels_lead &= check_stream(value.bytes("Streams")?, body, &mut totals, list)?;
                list.end_stream();
            }
            2 => {
                value.bytes("Format")?;
            }
            _ => {}
        }
    }
    Ok((labels_lead, totals))
}

/// Checks a stream; tells whether its labels come first and once.
fn check_stream(
    stream: &[u8],
    body: &[u8],
    totals: &mut Totals,
    list: &mut EntryList,
) -> Result<bool, ProtobufError> {
    totals.streams += 1;
    let mut labels_lead = true;
    let mut first = true;
    let mut fields = Fields::new(stream);
    while let Some((number, value)) = fields.step()? {
        match number {
            1 => {
                value.bytes("Labels")?;
                labels_lead &= first;
            }
            2 => {
                let entry = value.bytes("Entries")?;
                let (timestamp_ns, line, first_pair) = read_entry::<true>(entry)?;
                totals.entries += 1;
                totals.line_bytes += line.len() as u64;
                if let Some(mut pairs) = first_pair {
                    check_metadata(&mut pairs, body, totals, list)?;
                }
                list.end_entry(body, timestamp_ns, line);
            }
            3 => {
                value.varint("Hash")?;
            }
            _ => {}
        }
        first = false;
    }
    Ok(labels_lead)
}

fn check_metadata(
    fields: &mut Fields<'_>,
    body: &[u8],
    totals: &mut Totals,
    list: &mut EntryList,
) -> Result<(), ProtobufError> {
    while let Some((number, value)) = fields.step()? {
        if number == 3 {
            let (name, value) = read_pair(value.bytes("StructuredMetadata")?)?;
            totals.metadata_pairs += 1;
            totals.metadata_bytes += (name.len() + value.len()) as u64;
            list.add_pair(body, name, value);
        }
    }
    Ok(())
}

type RawEntry<'a> = (Option<i64>, &'a [u8], Option<Fields<'a>>);

/// Reads an entry: timestamp, line, and the fields from the first metadata pair
/// on. `CHECK` also looks into the parts that only the first pass cares for.
#[inline]
fn read_entry<const CHECK: bool>(entry: &[u8]) -> Result<RawEntry<'_>, ProtobufError> {
    let mut timestamp_ns = None;
    let mut line: &[u8] = b"";
    let mut first_pair = None;
    let mut fields = Fields::new(entry);
    loop {
        let before = fields;
        let Some((number, value)) = fields.step()? else { break };
        match number {
            1 => timestamp_ns = read_timestamp(value.bytes("Timestamp")?)?,
            2 => line = value.bytes("Line")?,
            3 => {
                first_pair = first_pair.or(Some(before));
            }
            4 if CHECK => {
                read_pair(value.bytes("Parsed")?)?;
            }
            _ => {}
        }
    }
    Ok((timestamp_ns, line, first_pair))
}

#[inline]
fn read_timestamp(message: &[u8]) -> Result<Option<i64>, ProtobufError> {
    let (seconds, nanos) = match usual_timestamp(message) {
        Some(parts) => parts,
        None => read_timestamp_fields(message)?,
    };
    let refuse = |problem| Err(ProtobufError::Timestamp { seconds, nanos, problem });
    if !(0..1_000_000_000).contains(&nanos) {
        return refuse("nanos not in range [0, 1e9)");
    }
    if (seconds, nanos) == (ZERO_TIME_SECONDS, 0) {
        return Ok(None);
    }
    match i64::try_from(i128::from(seconds) * 1_000_000_000 + i128::from(nanos)) {
        Ok(timestamp_ns) => Ok(Some(timestamp_ns)),
        Err(_) => refuse("outside the range of 64-bit nanoseconds"),
    }
}

/// Seconds and nanoseconds of a timestamp of the years 1978 to 3058 that has both, once and in
/// order.
#[inline]
fn usual_timestamp(message: &[u8]) -> Option<(i64, i32)> {
    let (&[0x08, a, b, c, d, e, 0x10], nanos) = message.split_first_chunk()? else { return None };
    // Seconds of five bytes, nanoseconds of as many as are left.
    let is_seconds = a & b & c & d & !e & 0x80 != 0;
    let (&last, others) = nanos.split_last()?;
    if !is_seconds || last >= 0x80 || others.len() > 4 || others.iter().any(|&n| n < 0x80) {
        return None;
    }
    let join = |rest: u64, &byte: &u8| rest << 7 | u64::from(byte & 0x7f);
    let seconds = [e, d, c, b, a].iter().fold(0, join);
    let nanos = nanos.iter().rev().fold(0, join);
    Some((i64::try_from(seconds).ok()?, i32::try_from(nanos).ok()?))
}

fn read_timestamp_fields(message: &[u8]) -> Result<(i64, i32), ProtobufError> {
    let (mut seconds, mut nanos) = (0i64, 0i32);
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.step()? {
        match number {
            1 => seconds = value.varint("Seconds")?.cast_signed(),
            2 => nanos = value.int32("Nanos")?,
            _ => {}
        }
    }
    Ok((seconds, nanos))
}

#[inline]
fn read_pair(message: &[u8]) -> Result<(&[u8], &[u8]), ProtobufError> {
    match usual_pair(message) {
        Some(pair) => Ok(pair),
        None => read_pair_fields(message),
    }
}

/// Name and value of a pair that has both, once and in order, of less than 128 bytes.
#[inline]
fn usual_pair(message: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&[0x0a, name_len], rest) = message.split_first_chunk()? else { return None };
    let (name, rest) = rest.split_at_checked(usize::from(name_len))?;
    let (&[0x12, value_len], value) = rest.split_first_chunk()? else { return None };
    let is_usual = name_len | value_len < 0x80 && value.len() == usize::from(value_len);
    is_usual.then_some((name, value))
}

fn read_pair_fields(message: &[u8]) -> Result<(&[u8], &[u8]), ProtobufError> {
    let (mut name, mut text): (&[u8], &[u8]) = (b"", b"");
    let mut fields = Fields::new(message);
    while let Some((number, value)) = fields.step()? {
        match number {
            1 => name = value.bytes("Name")?,
            2 => text = value.bytes("Value")?,
            _ => {}
        }
    }
    Ok((name, text))
}

const CHECKED: &str = "the body was checked";

/// Iterator over the streams of a [`ProtobufPush`].
#[derive(Clone, Debug)]
pub struct Streams<'a> {
    fields: Fields<'a>,
    labels_lead: bool,
    listed: Option<ListedStreams<'a>>,
}

impl<'a> Iterator for Streams<'a> {
    type Item = StreamRef<'a>;

    fn next(&mut self) -> Option<StreamRef<'a>> {
        loop {
            let (1, Value::Bytes(stream)) = self.fields.next().expect(CHECKED)? else { continue };
            let mut labels: &[u8] = b"";
            let mut fields = Fields::new(stream);
            while let Some((number, value)) = fields.next().expect(CHECKED) {
                if let (1, Value::Bytes(bytes)) = (number, value) {
                    labels = bytes;
                }
                if self.labels_lead {
                    break;
                }
            }
            let entries = match &mut self.listed {
                Some(listed) => EntrySource::Listed(listed.next()),
                None => EntrySource::Protobuf(Fields::new(stream)),
            };
            return Some(StreamRef { labels: LabelSource::text(labels), entries });
        }
    }
}

/// Pairs of an entry that are kept apart. An entry may have as many as its body has bytes,
/// nearly, so the list must not grow with them.
pub(super) const LISTED_PAIRS_MAX: usize = 128;

/// The next entry of a checked stream message. Its metadata, which is read several
/// times before it is stored, is walked here once, into `pairs`, unless there is very much.
#[inline]
pub(super) fn next_entry<'a, 'p>(
    fields: &mut Fields<'a>,
    pairs: &'p mut Vec<(&'a [u8], &'a [u8])>,
) -> Option<EntryRef<'p>> {
    loop {
        let (2, Value::Bytes(entry)) = fields.step().expect(CHECKED)? else { continue };
        let (timestamp_ns, line, first_pair) = read_entry::<false>(entry).expect(CHECKED);
        pairs.clear();
        let mut metadata = MetadataRef::EMPTY;
        if let Some(first_pair) = first_pair {
            let mut fields = first_pair;
            while let Some(pair) = next_metadata(&mut fields) {
                if pairs.len() == LISTED_PAIRS_MAX {
                    metadata = MetadataRef::from_protobuf(first_pair);
                    return Some(EntryRef { timestamp_ns, line, metadata });
                }
                pairs.push(pair);
            }
            metadata = MetadataRef::from_slice(pairs);
        }
        return Some(EntryRef { timestamp_ns, line, metadata });
    }
}

/// The next metadata pair of a checked entry message.
#[inline]
pub(super) fn next_metadata<'a>(fields: &mut Fields<'a>) -> Option<(&'a [u8], &'a [u8])> {
    loop {
        let (3, Value::Bytes(pair)) = fields.step().expect(CHECKED)? else { continue };
        return Some(read_pair(pair).expect(CHECKED));
    }
}
