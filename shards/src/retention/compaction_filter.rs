//! Decides which entries a rewrite keeps. Retention and deletion plug in here.

use logsvc_logql::engine::MetadataSets;

use crate::types::StreamDefinition;
use logsvc_segment::batch::MetadataPairs;

/// An entry of a segment that is being rewritten.
#[derive(Clone, Copy, Debug)]
pub struct EntryView<'a> {
    /// Nanoseconds since the Unix epoch.
    pub timestamp_ns: i64,
    /// The line.
    pub line: &'a [u8],
    pub(crate) metadata: ViewedMetadata<'a>,
}

/// Structured metadata of an entry, as its segment has it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ViewedMetadata<'a> {
    None,
    Set(&'a MetadataSets, u32),
    Pairs(MetadataPairs<'a>),
}

impl<'a> EntryView<'a> {
    /// Its structured metadata, by name.
    pub fn metadata(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let (set, pairs) = match self.metadata {
            ViewedMetadata::None => (None, None),
            ViewedMetadata::Set(sets, id) => (Some(sets.get(id)), None),
            ViewedMetadata::Pairs(pairs) => (None, Some(pairs)),
        };
        set.into_iter().flatten().chain(pairs.into_iter().flatten())
    }
}

/// The decision about all entries of a stream in a range of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterDecision {
    /// All of them are kept: they need not be decoded.
    Keep,
    /// All of them go.
    Drop,
    /// [`CompactionFilter::entry`] decides.
    Each,
}

/// Decides which entries a rewrite keeps. Streams come one after another, each with
/// [`CompactionFilter::begin`]; the other two are about the stream that was begun last. Answers
/// must depend on nothing but stream and entry: an entry that was stored twice may be
/// asked about twice.
pub trait CompactionFilter: std::fmt::Debug {
    /// The stream whose entries follow.
    fn begin(&mut self, stream: &StreamDefinition);

    /// Decides about the entries from `min_ns` to `max_ns`, both included.
    fn run(&self, min_ns: i64, max_ns: i64) -> FilterDecision;

    /// Whether an entry stays.
    fn entry(&self, entry: &EntryView<'_>) -> bool;
}
