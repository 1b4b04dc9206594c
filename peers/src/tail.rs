//! Words of a tail: new entries on their way from the node that has taken them to one that shows them.
//!
//! Guarantees: what [`Words`] gives was written by [`TailWord::encode`], but for a checksum that agrees
//! by chance. A word for which there is no memory is passed over and counted. Entries take the memory
//! that they were given, and besides at most as much as one word has bytes.

use std::sync::Arc;

use bytes::Bytes;
use logsvc_proto::{Labels, StreamId};
use logsvc_runtime::{Budget, Reservation};
use logsvc_segment::batch::{BatchBuilder, sections};
use logsvc_shards::tail::{DROPPED_LISTED_MAX, TailBlock};
use prost::Message;

use crate::frame::{self, Damaged, Failure, FailureHead, Kind, Opened};

/// Longest frame of a word. A batch has 64 MiB at most, and the labels of its streams come from one
/// push.
pub const WORD_MAX_BYTES: usize = 80 << 20;

/// Bytes in front of the frame of a word.
const PREFIX_BYTES: usize = 8;

/// See the module.
#[derive(Debug, Default)]
pub struct TailWord {
    /// The newest map that the sender knows.
    pub number: u64,
    /// New entries, in the order in which they became visible.
    pub parts: Vec<TailBlock>,
    /// Entries that came before `parts` and had no room: labels and time in ns since the Unix epoch
    /// of the first ones.
    pub dropped: Vec<(Arc<Labels>, i64)>,
    /// How many had no room.
    pub dropped_count: u64,
    /// How it ends, if it does.
    pub end: Option<TailEnd>,
}

/// Why there are no further words.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TailEnd {
    /// The sender stops in order.
    Stops,
    /// It has failed.
    Failed(Failure),
}

#[derive(Clone, PartialEq, Message)]
struct WordHead {
    #[prost(uint64, tag = "1")]
    number: u64,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    labels: Vec<Bytes>,
    #[prost(uint64, tag = "3")]
    dropped: u64,
    #[prost(uint32, repeated, tag = "4")]
    dropped_labels: Vec<u32>,
    #[prost(sfixed64, repeated, tag = "5")]
    dropped_ns: Vec<i64>,
    #[prost(bool, tag = "6")]
    is_last: bool,
    #[prost(message, optional, tag = "7")]
    failed: Option<FailureHead>,
}

fn message(text: impl ToString) -> Damaged {
    Damaged::Message(text.to_string())
}

/// Writes a word.
#[derive(Debug, Default)]
pub struct WordWriter {
    head: WordHead,
    batch: BatchBuilder,
}

impl WordWriter {
    /// A word without entries of a sender that knows this map.
    #[must_use]
    pub fn new(number: u64) -> WordWriter {
        WordWriter { head: WordHead { number, ..WordHead::default() }, ..WordWriter::default() }
    }

    /// The place of labels in the word. Neighbours often have the same.
    fn place(&mut self, labels: &Labels) -> u32 {
        let is_last = self.head.labels.last().is_some_and(|last| last == labels.as_bytes());
        if !is_last {
            self.head.labels.push(Bytes::copy_from_slice(labels.as_bytes()));
        }
        (self.head.labels.len() - 1) as u32
    }

    /// Adds entries of a stream: `write` writes them as a section of this id, or nothing.
    ///
    /// # Errors
    /// Those of `write`.
    pub fn part<E>(
        &mut self,
        labels: &Labels,
        write: impl FnOnce(StreamId, &mut BatchBuilder) -> Result<u64, E>,
    ) -> Result<(), E> {
        let place = self.place(labels);
        write(StreamId(u128::from(place)), &mut self.batch).map(drop)
    }

    /// Says that so many more entries had no room, of which this lists some.
    pub fn dropped<'a>(
        &mut self,
        listed: impl Iterator<Item = (&'a Arc<Labels>, i64)>,
        count: u64,
    ) {
        self.head.dropped = self.head.dropped.saturating_add(count);
        let room = DROPPED_LISTED_MAX.saturating_sub(self.head.dropped_ns.len());
        for (labels, timestamp_ns) in listed.take(room) {
            let place = self.place(labels);
            self.head.dropped_labels.push(place);
            self.head.dropped_ns.push(timestamp_ns);
        }
    }

    /// Says that it is the last word.
    pub fn end(&mut self, end: &TailEnd) {
        match end {
            TailEnd::Stops => self.head.is_last = true,
            TailEnd::Failed(failure) => self.head.failed = Some(failure.into()),
        }
    }

    /// Bytes of the entries so far.
    #[must_use]
    pub fn len_bytes(&self) -> usize {
        self.batch.len_bytes()
    }

    /// The bytes of the word. An entry and the labels of its stream come from one push, so the frame
    /// is not too long unless parts were added behind [`WORD_MAX_BYTES`] less the longest one.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        let entries = u32::try_from(self.batch.entry_count()).unwrap_or(u32::MAX);
        let frame = frame::seal(Kind::TailWord, self.batch.finish(), &self.head);
        let mut bytes = Vec::with_capacity(PREFIX_BYTES + frame.len());
        bytes.extend((frame.len() as u32).to_le_bytes());
        bytes.extend(entries.to_le_bytes());
        bytes.extend(frame);
        bytes
    }
}

impl TailWord {
    /// Reads the frame of a word that has so many entries. The entries take memory of `memory`; those
    /// for which there is none are dropped.
    ///
    /// # Errors
    /// See [`Damaged`].
    pub fn decode(frame: &[u8], entries: u32, memory: &Budget) -> Result<TailWord, Damaged> {
        let Opened { head, blob_len } = frame::open::<WordHead>(Kind::TailWord, frame)?;
        let WordHead { number, labels, dropped, dropped_labels, dropped_ns, is_last, failed } =
            head;
        let labels: Result<Vec<Arc<Labels>>, Damaged> =
            labels.iter().map(|bytes| Ok(Arc::new(frame::labels(bytes)?))).collect();
        let labels = labels?;
        let labels_at = |place: u128| {
            let place = usize::try_from(place).unwrap_or(usize::MAX);
            labels.get(place).ok_or_else(|| message("it has a stream without labels"))
        };
        if dropped_labels.len() != dropped_ns.len() || dropped_ns.len() > DROPPED_LISTED_MAX {
            return Err(message("its list of dropped entries is none"));
        }
        let listed: Result<Vec<_>, Damaged> = dropped_labels
            .iter()
            .zip(&dropped_ns)
            .map(|(place, time_ns)| Ok((Arc::clone(labels_at(u128::from(*place))?), *time_ns)))
            .collect();
        let end = match failed {
            Some(failure) => Some(TailEnd::Failed(failure.into())),
            None => is_last.then_some(TailEnd::Stops),
        };
        // What has no room is counted, and there are no more of them than could be counted one by one.
        let dropped_count = dropped.min(u64::from(u32::MAX));
        let mut word = TailWord { number, parts: Vec::new(), dropped: listed?, dropped_count, end };
        let mut left = entries as usize;
        for section in sections(&frame[..blob_len]) {
            let section = section.map_err(message)?;
            let count = section.entry_count();
            left = left.checked_sub(count).ok_or_else(|| message("it has more entries"))?;
            let labels = labels_at(section.stream.0)?;
            match TailBlock::of_section(Arc::clone(labels), &section, memory) {
                Some(part) => word.parts.push(part),
                None => word.drop_entries(labels, section.timestamps(), count as u64),
            }
        }
        if left > 0 {
            return Err(message("it has fewer entries"));
        }
        Ok(word)
    }

    fn drop_entries(
        &mut self,
        labels: &Arc<Labels>,
        times_ns: impl Iterator<Item = i64>,
        count: u64,
    ) {
        let room = DROPPED_LISTED_MAX.saturating_sub(self.dropped.len());
        self.dropped.extend(times_ns.take(room).map(|time_ns| (Arc::clone(labels), time_ns)));
        self.dropped_count += count;
    }
}

/// The words of one answer, out of the pieces in which its bytes come.
#[derive(Debug)]
pub struct Words {
    memory: Budget,
    prefix: Vec<u8>,
    frame: Option<Coming>,
}

/// A frame that has not come whole.
#[derive(Debug)]
struct Coming {
    len_bytes: usize,
    entries: u32,
    bytes: Vec<u8>,
    came_bytes: usize,
    /// `None`: there was no memory for it, and its bytes are passed over.
    memory: Option<Reservation>,
}

impl Words {
    /// No byte has come. Words and their entries take memory of `memory`.
    #[must_use]
    pub fn new(memory: Budget) -> Words {
        Words { memory, prefix: Vec::new(), frame: None }
    }

    /// Takes a piece, and gives the words that are whole now.
    ///
    /// # Errors
    /// See [`Damaged`].
    pub fn push(&mut self, mut piece: &[u8]) -> Result<Vec<TailWord>, Damaged> {
        let mut words = Vec::new();
        loop {
            let Some(frame) = &mut self.frame else {
                let wanted = PREFIX_BYTES - self.prefix.len();
                let (prefix, rest) = piece.split_at(wanted.min(piece.len()));
                self.prefix.extend_from_slice(prefix);
                piece = rest;
                let Some([a, b, c, d, e, f, g, h]) = self.prefix.first_chunk().copied() else {
                    return Ok(words);
                };
                self.prefix.clear();
                let len_bytes = u32::from_le_bytes([a, b, c, d]) as usize;
                if len_bytes > WORD_MAX_BYTES {
                    return Err(message("a word is too long"));
                }
                let memory = self.memory.try_reserve(len_bytes as u64);
                let entries = u32::from_le_bytes([e, f, g, h]);
                let bytes = Vec::new();
                self.frame = Some(Coming { len_bytes, entries, bytes, came_bytes: 0, memory });
                continue;
            };
            let wanted = frame.len_bytes - frame.came_bytes;
            let (part, rest) = piece.split_at(wanted.min(piece.len()));
            piece = rest;
            frame.came_bytes += part.len();
            if frame.memory.is_some() {
                frame.bytes.extend_from_slice(part);
            }
            if frame.came_bytes < frame.len_bytes {
                return Ok(words);
            }
            let Some(whole) = self.frame.take() else { continue };
            words.push(match whole.memory {
                Some(_) => TailWord::decode(&whole.bytes, whole.entries, &self.memory)?,
                None => TailWord { dropped_count: u64::from(whole.entries), ..TailWord::default() },
            });
        }
    }
}
