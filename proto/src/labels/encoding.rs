//! The byte form of a label set, in memory, in the write-ahead log and in the
//! stream hash.
//!
//! ```text
//! count       varint   number of pairs
//! then, `count` times, names strictly ascending bytewise:
//! name_len    varint   bytes, at least 1
//! name        bytes    [a-zA-Z_][a-zA-Z0-9_]*
//! value_len   varint   bytes, at least 1
//! value       bytes    UTF-8
//! ```
//!
//! Varints are minimal ([`crate::varint`]), so a set has exactly one encoding.
//! Sets of query results may hold empty values. Such sets are never stored, and
//! [`check`] refuses them.

use crate::labels::is_valid_label_name;
use crate::varint;

/// Why bytes are not an encoded label set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LabelDecodeError {
    /// The bytes end inside the set.
    #[error("label set is truncated")]
    Truncated,
    /// Bytes follow the last pair.
    #[error("label set is followed by stray bytes")]
    Trailing,
    /// A length is not a minimal varint.
    #[error("label set has a malformed length")]
    BadLength,
    /// A name breaks the name syntax.
    #[error("label set has an invalid name")]
    BadName,
    /// A value is empty or not UTF-8.
    #[error("label set has an invalid value")]
    BadValue,
    /// Names are not strictly ascending.
    #[error("label set is not sorted")]
    Unsorted,
}

/// Encodes pairs that are already sorted and unique.
pub(super) fn encode_sorted<'a>(
    pairs: impl ExactSizeIterator<Item = (&'a str, &'a str)> + Clone,
) -> Box<[u8]> {
    let text_len_bytes: usize = pairs.clone().map(|(name, value)| name.len() + value.len()).sum();
    let lengths = pairs.clone().flat_map(|(name, value)| [name.len(), value.len()]);
    let numbers_len_bytes: usize = lengths.chain([pairs.len()]).map(number_len_bytes).sum();
    let mut out = Vec::with_capacity(text_len_bytes + numbers_len_bytes);
    write_sorted(pairs, &mut out);
    out.into_boxed_slice()
}

/// Appends the encoded form of pairs that are already sorted and unique.
pub(crate) fn write_sorted<'a>(
    pairs: impl ExactSizeIterator<Item = (&'a str, &'a str)>,
    out: &mut Vec<u8>,
) {
    varint::write(out, pairs.len() as u64);
    for (name, value) in pairs {
        varint::write(out, name.len() as u64);
        out.extend_from_slice(name.as_bytes());
        varint::write(out, value.len() as u64);
        out.extend_from_slice(value.as_bytes());
    }
}

/// How many bytes a length takes: seven bits each.
fn number_len_bytes(number: usize) -> usize {
    (usize::BITS - (number | 1).leading_zeros()).div_ceil(7) as usize
}

/// Checks that `bytes` are exactly one encoded label set of a stream.
pub fn check(bytes: &[u8]) -> Result<(), LabelDecodeError> {
    let mut position = 0;
    let count = read_length(bytes, &mut position)?;
    let mut previous: &[u8] = b"";
    // A pair takes at least four bytes, so the loop is bounded by the input even
    // if `count` lies.
    for _ in 0..count {
        let name = read_text(bytes, &mut position)?;
        let value = read_text(bytes, &mut position)?;
        if !is_valid_label_name(name) {
            return Err(LabelDecodeError::BadName);
        }
        if previous >= name {
            return Err(LabelDecodeError::Unsorted);
        }
        if value.is_empty() || simdutf8::basic::from_utf8(value).is_err() {
            return Err(LabelDecodeError::BadValue);
        }
        previous = name;
    }
    if position == bytes.len() { Ok(()) } else { Err(LabelDecodeError::Trailing) }
}

fn read_length(bytes: &[u8], position: &mut usize) -> Result<u64, LabelDecodeError> {
    varint::read_minimal(bytes, position).map_err(|error| match error {
        varint::VarintError::Truncated => LabelDecodeError::Truncated,
        varint::VarintError::Invalid => LabelDecodeError::BadLength,
    })
}

fn read_text<'a>(bytes: &'a [u8], position: &mut usize) -> Result<&'a [u8], LabelDecodeError> {
    let len_bytes = read_length(bytes, position)?;
    let rest = &bytes[*position..];
    let len_bytes = usize::try_from(len_bytes)
        .ok()
        .filter(|&len_bytes| len_bytes <= rest.len())
        .ok_or(LabelDecodeError::Truncated)?;
    *position += len_bytes;
    Ok(&rest[..len_bytes])
}

/// Takes a varint off a buffer that is known to be well formed.
#[inline]
pub(super) fn take_number(rest: &mut &[u8]) -> usize {
    let mut position = 0;
    let value = varint::read(rest, &mut position).expect("the buffer was checked when it was made");
    *rest = &rest[position..];
    value as usize
}

/// Takes a length-prefixed text off a buffer that is known to be well formed.
#[inline]
pub(super) fn take_text<'a>(rest: &mut &'a [u8]) -> &'a [u8] {
    let len_bytes = take_number(rest);
    let (text, behind) = rest.split_at(len_bytes);
    *rest = behind;
    text
}
