//! The column of structured metadata: distinct sets of pairs, a dictionary of values per name,
//! and the number of each entry's set. `docs/format.md` gives the bytes.
//!
//! An entry with a repeated set takes the few bits of its number. Sets that never repeat, such
//! as sets with a trace id, take no number: there is a code for "the next set", and a dictionary
//! whose values are each used once, in order, has no indexes. Values of lower-case hexadecimal
//! digits take half their bytes. No compressor stores random ids in fewer bytes, and this form
//! is faster to read.
//!
//! Drafts store a plain form ([`plain`]), without the search for equal sets.
//!
//! Decoding takes time and memory in proportion to the column and to the pairs of the distinct
//! sets, whose size the directory gives.

mod decode;
mod encode;
mod listed;
mod plain;
#[cfg(test)]
mod tests;

pub use decode::{BlockMetadata, StoredMetadata};
pub(crate) use decode::{decode, decode_as_stored};
pub(crate) use encode::{EntrySets, encode};
pub(crate) use listed::decode_listed;
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
