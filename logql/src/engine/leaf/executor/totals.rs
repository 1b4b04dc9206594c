//! Answers a leaf from the figures that the store keeps of blocks and of streams, without a look at
//! their entries.
//!
//! Guarantees: a block, or a stream, is answered only if the same steps see all of its entries.
//! Whatever is answered must not be given to the leaf again.

use super::{Collector, LeafExecutor};
use crate::engine::block::BlockSummary;
use crate::engine::labels::sets::Reduction;
use crate::engine::leaf::StreamState;
use crate::engine::plan::{EntryValue, StreamLabels};

/// By which of their labels the streams of a leaf are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CountedBy<'a> {
    /// All streams are alike.
    Nothing,
    /// Streams with equal values of this label are alike, if they have the label. Of others the
    /// metadata may have it.
    Label(&'a str),
    /// The same, and streams without the label are alike, too.
    StreamLabel(&'a str),
}

impl LeafExecutor {
    /// Whether [`LeafExecutor::summary`] may be enough for blocks of a stream.
    #[must_use]
    pub fn takes_summaries(&self, stream: &StreamState) -> bool {
        matches!(self.collector, Collector::Range(_))
            && !stream.needs.lines
            && (!stream.needs.metadata || self.counts_metadata())
    }

    /// Whether [`LeafExecutor::totals`] may be enough for many blocks together.
    #[must_use]
    pub fn takes_totals(&self) -> bool {
        matches!(self.collector, Collector::Range(_))
    }

    /// Whether the same steps see all entries between these times, and all of them are in the range
    /// of the leaf.
    #[must_use]
    pub fn sees_alike(&mut self, min_timestamp_ns: i64, max_timestamp_ns: i64) -> bool {
        let Collector::Range(range) = &mut self.collector else { return false };
        min_timestamp_ns >= self.plan.start_ns
            && max_timestamp_ns < self.plan.end_ns
            && range.cell(min_timestamp_ns).holds(max_timestamp_ns)
    }

    /// Whether the bytes of metadata are part of the result.
    #[must_use]
    pub fn counts_metadata(&self) -> bool {
        matches!(&self.collector, Collector::Range(range) if range.value() == EntryValue::StoredSize)
    }

    /// Offers a block by its directory entry alone. True when that was enough and
    /// the block must not be given to [`LeafExecutor::block`]: the query needs counts
    /// or lengths alone, and the same steps see all entries of the block. Where the query
    /// needs the size of entries, the size of their metadata is estimated from the blocks
    /// that were read.
    pub fn summary(&mut self, stream: &StreamState, block: &BlockSummary) -> bool {
        let (min, max) = (block.min_timestamp_ns, block.max_timestamp_ns);
        let Collector::Range(range) = &mut self.collector else {
            return false;
        };
        let inside = min >= self.plan.start_ns && max < self.plan.end_ns;
        let is_sized = range.value() == EntryValue::StoredSize;
        if stream.needs.lines || (stream.needs.metadata && !is_sized) || !inside {
            return false;
        }
        let cell = range.cell(min);
        if !cell.holds(max) {
            return false;
        }
        let mut bytes = block.line_bytes;
        if is_sized {
            let known = block.metadata_bytes;
            if let Some(metadata_bytes) = known {
                self.sizes.note(stream.number, block.entries, metadata_bytes);
            }
            match known.or_else(|| self.sizes.estimate(stream.number, block)) {
                Some(metadata_bytes) => bytes += metadata_bytes,
                None => return false,
            }
        }
        range.add(stream.plain_set, &cell, block.entries, bytes, self.labels.meter());
        self.stats.summaries += block.blocks;
        self.stats.entries += block.entries;
        self.stats.entries_kept += block.entries;
        self.count_series();
        true
    }

    /// By which of their labels streams are counted together; `None` if more than one label counts,
    /// or each stream has to be looked at.
    #[must_use]
    pub fn counts_by(&self) -> Option<CountedBy<'_>> {
        if !self.takes_totals() {
            return None;
        }
        if let Some(groups) = &self.stream_groups {
            return match groups.by() {
                StreamLabels::Listed(names) => match &names[..] {
                    [] => Some(CountedBy::Nothing),
                    [name] => Some(CountedBy::StreamLabel(name)),
                    _ => None,
                },
                StreamLabels::All | StreamLabels::Names(_) => None,
            };
        }
        let Reduction::By(listed) = &self.reduction else { return None };
        self.listed_groups.as_ref()?;
        match listed[..] {
            [] => Some(CountedBy::Nothing),
            [name] => std::str::from_utf8(self.labels.name(name)).ok().map(CountedBy::Label),
            _ => None,
        }
    }

    /// Whether the caller has to count the streams that the leaf reads: the answer to a question for
    /// statistics has their number.
    #[must_use]
    pub fn counts_streams(&self) -> bool {
        self.stream_groups.is_some() && self.counts_by() == Some(CountedBy::Nothing)
    }

    /// Offers many blocks of a stream, or of streams that are alike, by their sums; see
    /// [`LeafExecutor::summary`]. Nothing is estimated.
    pub fn totals(&mut self, stream: &StreamState, totals: &BlockSummary) -> bool {
        let is_known = totals.metadata_bytes.is_some() || !self.counts_metadata();
        is_known && self.summary(stream, totals)
    }
}
