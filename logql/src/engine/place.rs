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

use std::fmt;

use logsvc_proto::Labels;
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

/// What tells an entry apart among those of its time, whatever a query makes of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct EntryPlace {
    /// As [`Place::stream_hash`].
    pub stream_hash: u64,
    /// As [`Place::entry_hash`] of a query without stages.
    pub entry_hash: u64,
}

/// 32 lower hexadecimal digits: the hash of the stream, then that of the entry.
impl fmt::Display for EntryPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}{:016x}", self.stream_hash, self.entry_hash)
    }
}

impl EntryPlace {
    /// The place that a text stands for; `None` if the text is not that of a place.
    #[must_use]
    pub fn parse(text: &str) -> Option<EntryPlace> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return None;
        }
        let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
        let (stream, entry) = text.split_at(16);
        Some(EntryPlace { stream_hash: number(stream)?, entry_hash: number(entry)? })
    }

    /// The place among the entries of all times, for [`super::QueryParams::after`].
    #[must_use]
    pub fn at(self, timestamp_ns: i64) -> Place {
        let EntryPlace { stream_hash, entry_hash } = self;
        Place { timestamp_ns, stream_hash, entry_hash, ordinal: 0 }
    }
}

/// The hash of a stream's labels for [`Place::stream_hash`]: XXH64 of the names and values, each
/// followed by the byte 0xff.
pub(super) fn stream_hash(labels: &Labels) -> u64 {
    let mut hash = Xxh64::new(0);
    for (name, value) in labels {
        for text in [name, value] {
            hash.update(text.as_bytes());
            hash.update(&[0xff]);
        }
    }
    hash.digest()
}

/// The hash of an entry for [`Place::entry_hash`].
pub(super) fn entry_hash(stream: &str, set: &EntryLabelSet, line: &[u8]) -> u64 {
    let mut hash = Xxh64::new(0);
    let labels = [&*set.stream, &set.structured_metadata, &set.parsed];
    let texts = labels.iter().map(|labels| labels.as_bytes());
    for text in [stream.as_bytes()].into_iter().chain(texts).chain([line]) {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text);
    }
    hash.digest()
}
