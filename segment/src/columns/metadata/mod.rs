//! The column of structured metadata: distinct sets of pairs, their values in one
//! dictionary per name, and for each entry which set it has. `docs/format.md`
//! gives the bytes.
//!
//! Sets that repeat cost the few bits of their number. Sets that never repeat,
//! as those with a trace id, cost no number at all: "the next set" has a code of
//! its own, and a dictionary whose values are all used once, in order, needs no
//! indexes. Values that are all lower-case hexadecimal take half their bytes,
//! which is as small as a compressor gets random ids, and faster to read.
//!
//! Drafts have a plain form instead ([`plain`]), in which nothing was looked up.
//!
//! Decoding takes time and memory in proportion to the column and to the pairs of
//! the distinct sets, which must fit the size that the directory gives.

mod decode;
mod encode;
mod plain;
#[cfg(test)]
mod tests;

pub use decode::{BlockMetadata, StoredMetadata};
pub(crate) use decode::{decode, decode_as_stored};
pub(crate) use encode::{EntrySets, encode};
pub(crate) use plain::encode_plain;
pub use plain::{PlainMetadata, PlainSets};

/// Values are stored as they are.
const FORM_TEXT: u8 = 0;
/// Two hexadecimal digits are stored in a byte.
const FORM_HEX: u8 = 1;

/// Codes of entries: no metadata.
const CODE_NONE: u64 = 0;
/// Codes of entries: the next set.
const CODE_NEXT: u64 = 1;
/// Codes of entries: this plus the number of a set that was used before.
const CODE_SEEN: u64 = 2;
