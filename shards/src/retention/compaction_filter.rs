//! Decides which entries a rewrite keeps. Retention and deletion plug in here.

use logsvc_logql::engine::MetadataSets;

use crate::manifest::SegmentName;
use crate::types::StreamDefinition;
use logsvc_segment::RunInfo;
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

/// Entries of the stream that was begun last, in one block of an input.
#[derive(Clone, Copy, Debug)]
pub struct RunView<'a> {
    /// The input.
    pub segment: SegmentName,
    /// The entries, with their times.
    pub run: &'a RunInfo,
}

/// Decides which entries a rewrite keeps. Streams come one after another, each with
/// [`CompactionFilter::begin`]; the other two are about the stream that was begun last. Answers
/// must depend on nothing but stream, place and entry: a run may be asked about several times.
pub trait CompactionFilter: std::fmt::Debug {
    /// The stream whose entries follow.
    fn begin(&mut self, stream: &StreamDefinition);

    /// Decides about the entries of a run.
    fn run(&self, run: RunView<'_>) -> FilterDecision;

    /// Whether an entry of a run stays. `index` counts within the block.
    fn entry(&self, run: RunView<'_>, index: usize, entry: &EntryView<'_>) -> bool;
}
