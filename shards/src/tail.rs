//! Live tails on the lanes: a front core subscribes to the streams that match a query, and polls
//! each shard for new entries.
//!
//! Guarantees: the answer to a [`TailJoin`] holds exactly the entries that were visible in the
//! shard before the join. The batches with its epoch (or a later one) hold exactly the entries
//! that became visible after it: no gap, and no entry twice. Entries of one stream come in the
//! order in which they became visible. Entries without room in the subscription, or without
//! memory for tails, are dropped and reported. Entries that were pushed again are left out if a
//! whole section of a push is known already; single repeated entries among new ones may show
//! twice.

use std::sync::Arc;

use logsvc_logql::engine::{EntryBlock, LeafPlan, MetadataColumn, Needs, PlanError};
use logsvc_proto::{Labels, StreamId};
use logsvc_runtime::{Budget, Reservation};

use crate::deletion::{HiddenEntries, Hiding, ShownEntries, StreamDeletions};
use crate::scan::{LeafRequest, intern};
use crate::scope::TenantScope;
use logsvc_segment::batch::{BatchBuilder, Section, SectionEntry};
use logsvc_segment::head::HeadBlock;

/// The memory of an entry in a copy besides its line and its metadata, in bytes.
const ENTRY_OVERHEAD_BYTES: usize = 16;

/// Dropped entries that a batch lists; more are only counted.
pub const DROPPED_LISTED_MAX: usize = 1000;

/// Opens a subscription, if it is not open, and gives the entries that came before the request.
#[derive(Debug)]
pub struct TailJoin {
    /// Names the subscription among the subscriptions of the core that asks.
    pub subscription: u64,
    /// Entries that become visible after the request carry it. Must rise from join to join.
    pub epoch: u64,
    /// Memory that entries of the subscription may take in the shard, in bytes, about.
    pub queue_max_bytes: usize,
    /// The query for the entries that came before; its tenants and matchers are the subscription's.
    pub history: LeafRequest,
}

/// [`TailJoin`] without a history.
#[derive(Clone, Debug)]
pub struct TailFollow {
    /// As [`TailJoin::subscription`].
    pub subscription: u64,
    /// As [`TailJoin::epoch`].
    pub epoch: u64,
    /// As [`TailJoin::queue_max_bytes`].
    pub queue_max_bytes: usize,
    /// Whose streams.
    pub tenants: TenantScope,
    /// Has the matchers of the streams, whose patterns were checked.
    pub plan: Arc<LeafPlan>,
}

/// Asks for new entries. Answered when there are some, or when the core asks again.
#[derive(Debug, Default)]
pub struct TailPoll {
    /// New values of [`TailJoin::queue_max_bytes`], by subscription.
    pub queue_max_bytes: Vec<(u64, usize)>,
}

/// The new entries of one subscription.
#[derive(Debug)]
pub struct TailBatch {
    /// The subscription.
    pub subscription: u64,
    /// Entries, in the order in which they became visible.
    pub parts: Vec<TailPart>,
    /// Entries that were dropped before the query's filters saw them; the first
    /// [`DROPPED_LISTED_MAX`].
    pub dropped: Vec<TailDropped>,
    /// How many were dropped.
    pub dropped_count: u64,
}

/// Entries of one stream that became visible in one epoch.
#[derive(Clone, Debug)]
pub struct TailPart {
    /// The epoch of the last [`TailJoin`] before them.
    pub epoch: u64,
    /// The entries, shared by all subscriptions.
    pub block: Arc<TailBlock>,
}

/// An entry that was dropped.
#[derive(Clone, Debug)]
pub struct TailDropped {
    /// The epoch of the last [`TailJoin`] before it.
    pub epoch: u64,
    /// Labels of its stream.
    pub labels: Arc<Labels>,
    /// Its time in ns since the Unix epoch.
    pub timestamp_ns: i64,
}

/// A copy of new entries of one stream, which counts against the memory for tails until its last
/// holder drops it.
#[derive(Debug)]
pub struct TailBlock {
    labels: Arc<Labels>,
    entries: HeadBlock,
    /// The requests for deletion that may hide some of them.
    deletions: Option<Arc<StreamDeletions>>,
    memory: Reservation,
}

impl TailBlock {
    pub(crate) fn new(
        labels: Arc<Labels>,
        entries: HeadBlock,
        deletions: Option<Arc<StreamDeletions>>,
        memory: Reservation,
    ) -> TailBlock {
        TailBlock { labels, entries, deletions, memory }
    }

    /// A copy of a section that another node has sent; `None` if there is no memory for it. Nothing
    /// of it is hidden. The section must be one that was checked.
    pub fn of_section(
        labels: Arc<Labels>,
        section: &Section<'_>,
        memory: &Budget,
    ) -> Option<TailBlock> {
        let bytes: usize = section.entries().map(|entry| copy_bytes(&entry)).sum();
        let memory = memory.try_reserve(bytes as u64)?;
        let entries = copy_of(section.entries(), section.entry_count(), section.lines.len());
        Some(TailBlock::new(labels, entries, None, memory))
    }

    /// Writes the entries that no request for deletion hides as a section of a batch, if there are
    /// any; tells how many.
    ///
    /// # Errors
    /// The allowance of `hidden` stops it.
    pub fn write_shown(
        &self,
        stream: StreamId,
        hidden: &mut HiddenEntries,
        batch: &mut BatchBuilder,
    ) -> Result<u64, PlanError> {
        let mut marks = vec![false; self.entries.len()];
        if let Some(deletions) = &self.deletions {
            self.with_columns(0, |block| {
                let filters = deletions.filters.iter().map(|filter| Hiding::from(&**filter));
                hidden.mark(filters, &self.labels, block, &mut marks, |_, _| {})
            })?;
        }
        let shown = marks.iter().filter(|is_hidden| !**is_hidden).count() as u64;
        if shown == 0 {
            return Ok(0);
        }
        batch.begin(stream);
        for (index, _) in marks.iter().enumerate().filter(|(_, is_hidden)| !**is_hidden) {
            batch.push_entry(&SectionEntry {
                timestamp_ns: self.entries.timestamps_ns()[index],
                line: self.entries.line(index),
                metadata: self.entries.metadata(index),
            });
        }
        batch.end();
        Ok(shown)
    }

    /// Times of all entries in ns since the Unix epoch, in the order in which they became visible.
    pub fn timestamps_ns(&self) -> &[i64] {
        self.entries.timestamps_ns()
    }

    /// Labels of the stream.
    pub fn labels(&self) -> &Arc<Labels> {
        &self.labels
    }

    /// Number of entries; never 0.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// Memory that it takes.
    pub fn held_bytes(&self) -> usize {
        self.memory.bytes() as usize
    }

    /// Calls `visit` with the entries that no request for deletion hides, as the engine takes them;
    /// not if all of them are hidden. A copy takes at most twice [`TailBlock::held_bytes`] meanwhile.
    ///
    /// # Errors
    /// The allowance of `hidden` stops it.
    pub fn with_shown_columns(
        &self,
        arrival: u64,
        hidden: &mut HiddenEntries,
        visit: impl FnOnce(&EntryBlock<'_>),
    ) -> Result<(), PlanError> {
        let Some(deletions) = &self.deletions else {
            self.with_columns(arrival, visit);
            return Ok(());
        };
        self.with_columns(arrival, |block| {
            let (mut marks, mut count) = (vec![false; block.len()], 0);
            let filters = deletions.filters.iter().map(|filter| Hiding::from(&**filter));
            hidden.mark(filters, &self.labels, block, &mut marks, |_, _| count += 1)?;
            if count == 0 {
                visit(block);
            } else if count < block.len() {
                let needs = Needs { line_lengths: true, lines: true, metadata: true };
                visit(&ShownEntries::of(block, &marks, needs).block(block));
            }
            Ok(())
        })
    }

    /// Whether requests for deletion may hide some of the entries.
    pub fn may_hide(&self) -> bool {
        self.deletions.is_some()
    }

    /// Calls `visit` with all entries, the hidden ones included, as the engine takes them.
    pub fn with_columns<T>(&self, arrival: u64, visit: impl FnOnce(&EntryBlock<'_>) -> T) -> T {
        let entries = &self.entries;
        let dictionary = entries.has_metadata().then(|| intern(entries));
        let metadata = match &dictionary {
            Some((sets, set_ids)) => MetadataColumn::Sets { set_ids, sets },
            None => MetadataColumn::None,
        };
        visit(&EntryBlock {
            timestamps_ns: entries.timestamps_ns(),
            line_ends: entries.line_ends(),
            lines: entries.lines(),
            metadata,
            arrival,
            sorted: entries.is_sorted(),
        })
    }
}

/// Memory of an entry in a copy, in bytes, about.
pub(crate) fn copy_bytes(entry: &SectionEntry<'_>) -> usize {
    ENTRY_OVERHEAD_BYTES + entry.line.len() + entry.metadata.encoded_len()
}

/// A copy of so many entries, whose lines have so many bytes together.
pub(crate) fn copy_of<'a>(
    entries: impl Iterator<Item = SectionEntry<'a>>,
    count: usize,
    lines_len: usize,
) -> HeadBlock {
    let mut copy = HeadBlock::with_capacity(count, lines_len);
    for entry in entries {
        copy.push(entry.timestamp_ns, entry.line, entry.metadata);
    }
    copy
}

/// Numbers of a shard's tails.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TailStatus {
    /// Open subscriptions.
    pub subscriptions: u64,
    /// Streams that at least one of them matches.
    pub streams: u64,
    /// Entries dropped since the start, counted for each subscription.
    pub dropped: u64,
}
