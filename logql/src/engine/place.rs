//! The place of an entry in the answer of a log query, from which the next page goes on.
//!
//! A time alone does not tell where a page ended: any number of entries may have it. A place names
//! the source stream as well, by its hash, and the entry within it, by the hash of what was
//! returned. So a place stays true while entries arrive, and while the store moves entries between
//! files. Entries of one stream and one time that arrive between two pages belong to a later page
//! in the forward direction. In the backward direction they come before the place, with the entries
//! that were returned already.
//!
//! What can go wrong: the entry itself may have been deleted. Then its ordinal number stands for it,
//! which may repeat or leave out entries of that one stream and time if others of them are gone, too.

use xxhash_rust::xxh64::Xxh64;

use super::labels::sets::EntryLabelSet;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Place {
    /// The time of the entry, in nanoseconds since the epoch.
    pub timestamp_ns: i64,
    /// XXH64 of the labels of its source stream, which orders the streams of one time.
    pub stream_hash: u64,
    /// A hash of its source stream, its line and its labels as they were returned.
    pub entry_hash: u64,
    /// How many entries of its stream and its time have been returned, itself included.
    pub ordinal: u32,
}

/// The hash of an entry for [`Place::entry_hash`].
pub(super) fn entry_hash(stream: &str, set: &EntryLabelSet, line: &[u8]) -> u64 {
    let mut hash = Xxh64::new(0);
    let labels = [&set.stream, &set.structured_metadata, &set.parsed];
    let texts = labels.iter().map(|labels| labels.as_bytes());
    for text in [stream.as_bytes()].into_iter().chain(texts).chain([line]) {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.digest()
}
