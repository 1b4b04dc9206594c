//! What a node says to a question: what its shards have found, or why it has nothing to say.

use std::sync::Arc;

use bytes::Bytes;
use logsvc_logql::engine::LeafResult;
use logsvc_proto::Labels;
use logsvc_shards::deletion::DeletionVersion;
use logsvc_shards::types::ScanStats;
use prost::Message;

use super::stats::{COUNTER_MAX, counters_of, stats_of};
use super::{Asked, message};
use crate::frame::{self, Damaged, Failure, FailureHead, Kind, Opened};

/// What a node says to a [`Question`].
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one per answer, and most have found something"
)]
pub enum Reply {
    /// What it has found.
    Found(Found),
    /// It knows the map of this number.
    Newer(u64),
    /// It knows this version of the requests for deletion, which is later than the question's.
    Hides(DeletionVersion),
    /// It cannot answer now.
    Wait,
    /// It does not own the partitions.
    NotOwner,
    /// It has failed.
    Failed(Failure),
}

/// What shards have found.
#[derive(Debug, Default)]
pub struct Found {
    /// Results of leaves: one or more of each leaf.
    pub parts: Vec<LeafResult>,
    /// The work for them.
    pub stats: ScanStats,
    /// Names or values of labels, those of each core in their order.
    pub texts: Vec<Box<str>>,
    /// Label sets.
    pub series: Vec<Arc<Labels>>,
    /// How many parts of segments could not be read for a list.
    pub unreadable_parts: u64,
}

#[derive(Clone, PartialEq, Message)]
struct FoundHead {
    /// The lengths of the results of leaves, which are the blob.
    #[prost(uint64, repeated, tag = "1")]
    part_lens: Vec<u64>,
    /// Which leaf of the question each of them is of.
    #[prost(uint32, repeated, tag = "2")]
    part_leaves: Vec<u32>,
    #[prost(uint64, repeated, tag = "3")]
    stats: Vec<u64>,
    #[prost(string, repeated, tag = "4")]
    texts: Vec<String>,
    #[prost(bytes = "bytes", repeated, tag = "5")]
    series: Vec<Bytes>,
    #[prost(uint64, tag = "6")]
    unreadable_parts: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Nothing {}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Outcome {
    #[prost(message, tag = "1")]
    Found(FoundHead),
    #[prost(uint64, tag = "2")]
    Newer(u64),
    #[prost(message, tag = "3")]
    Wait(Nothing),
    #[prost(message, tag = "4")]
    NotOwner(Nothing),
    #[prost(message, tag = "5")]
    Failed(FailureHead),
    #[prost(uint64, tag = "6")]
    Hides(u64),
}

#[derive(Clone, PartialEq, Message)]
struct ReplyHead {
    #[prost(oneof = "Outcome", tags = "1, 2, 3, 4, 5, 6")]
    outcome: Option<Outcome>,
}

impl Reply {
    /// Its bytes, as an answer to what was asked.
    #[must_use]
    pub fn encode(self, asked: &Asked) -> Vec<u8> {
        let mut blob = Vec::new();
        let outcome = match self {
            Reply::Found(found) => Outcome::Found(found.encode(asked, &mut blob)),
            Reply::Newer(number) => Outcome::Newer(number),
            Reply::Hides(version) => Outcome::Hides(version.number()),
            Reply::Wait => Outcome::Wait(Nothing {}),
            Reply::NotOwner => Outcome::NotOwner(Nothing {}),
            Reply::Failed(failure) => Outcome::Failed((&failure).into()),
        };
        frame::seal(Kind::Reply, blob, &ReplyHead { outcome: Some(outcome) })
    }

    /// Reads them.
    ///
    /// # Errors
    /// See [`Damaged`].
    pub fn decode(bytes: &[u8], asked: &Asked) -> Result<Reply, Damaged> {
        let Opened { head, blob_len } = frame::open::<ReplyHead>(Kind::Reply, bytes)?;
        Ok(match head.outcome.ok_or_else(|| message("it has no outcome"))? {
            Outcome::Found(head) => Reply::Found(Found::decode(head, &bytes[..blob_len], asked)?),
            Outcome::Newer(number) => Reply::Newer(number),
            Outcome::Hides(number) => Reply::Hides(DeletionVersion::of_number(number)),
            Outcome::Wait(Nothing {}) => Reply::Wait,
            Outcome::NotOwner(Nothing {}) => Reply::NotOwner,
            Outcome::Failed(failure) => Reply::Failed(failure.into()),
        })
    }
}

impl Found {
    /// Memory of what was found, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let texts = self.texts.iter().map(|text| size_of::<Box<str>>() + text.len());
        let series = self.series.iter().map(|one| size_of::<Arc<Labels>>() + one.as_bytes().len());
        let parts = self.parts.iter().map(LeafResult::held_bytes);
        texts.sum::<usize>() + series.sum::<usize>() + parts.sum::<usize>()
    }

    fn encode(self, asked: &Asked, blob: &mut Vec<u8>) -> FoundHead {
        let Found { parts, stats, texts, series, unreadable_parts } = self;
        let mut places: Vec<(usize, u32)> = match asked {
            Asked::Leaves(leaves) => leaves.iter().map(|leaf| leaf.index()).zip(0..).collect(),
            _ => Vec::new(),
        };
        places.sort_unstable();
        let place = |part: &LeafResult| {
            let at = places.binary_search_by_key(&part.leaf(), |(number, _)| *number).ok()?;
            Some(places[at].1)
        };
        let (mut part_lens, mut part_leaves) = (Vec::new(), Vec::new());
        for part in parts {
            // What nobody has asked for is nobody's.
            let Some(place) = place(&part) else { continue };
            let begin = blob.len();
            part.encode(blob);
            part_lens.push((blob.len() - begin) as u64);
            part_leaves.push(place);
        }
        FoundHead {
            part_lens,
            part_leaves,
            stats: counters_of(&stats),
            texts: texts.into_iter().map(String::from).collect(),
            series: series.iter().map(|one| Bytes::copy_from_slice(one.as_bytes())).collect(),
            unreadable_parts,
        }
    }

    fn decode(head: FoundHead, mut blob: &[u8], asked: &Asked) -> Result<Found, Damaged> {
        if head.part_lens.len() != head.part_leaves.len() {
            return Err(message("its parts are not of leaves"));
        }
        let mut parts = Vec::new();
        for (len, leaf) in head.part_lens.iter().zip(&head.part_leaves) {
            let plan = match asked {
                Asked::Leaves(leaves) => leaves.get(*leaf as usize),
                _ => None,
            };
            let plan = plan.ok_or_else(|| message("it has a part that was not asked for"))?;
            let len = usize::try_from(*len).unwrap_or(usize::MAX);
            let (part, rest) =
                blob.split_at_checked(len).ok_or_else(|| message("a part is cut off"))?;
            parts.push(LeafResult::decode(part, plan).map_err(message)?);
            blob = rest;
        }
        if !blob.is_empty() {
            return Err(message("it has more bytes than parts"));
        }
        let series: Result<Vec<_>, Damaged> =
            head.series.iter().map(|one| Ok(Arc::new(frame::labels(one)?))).collect();
        Ok(Found {
            parts,
            stats: stats_of(&head.stats),
            texts: head.texts.into_iter().map(String::into_boxed_str).collect(),
            series: series?,
            unreadable_parts: head.unreadable_parts.min(COUNTER_MAX),
        })
    }
}
