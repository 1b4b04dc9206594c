//! The streams of a scan: the ones that the shard had in memory when the scan began, and those that
//! the scan has found in segments since.
//!
//! Guarantees: a stream keeps its number. The streams of the shard's memory come first.

use std::sync::Arc;

use logsvc_proto::{Labels, StreamId};

use super::{HeadBlockRef, StreamSnapshot, StreamSnapshots};
use crate::deletion::StreamDeletions;

/// A stream that was found in a segment.
#[derive(Clone, Debug)]
pub(super) struct FoundStream {
    pub(super) id: StreamId,
    /// The labels that it is shown with.
    pub(super) labels: Arc<Labels>,
    /// The requests for deletion that may hide some of its entries.
    pub(super) deletions: Option<Box<StreamDeletions>>,
}

impl FoundStream {
    /// Its memory in bytes, with its places in the tables of a scan.
    pub(super) fn held_bytes(&self) -> usize {
        let deletions = self.deletions.as_ref().map_or(0, |_| size_of::<StreamDeletions>());
        FOUND_OVERHEAD_BYTES + self.labels.as_bytes().len() + deletions
    }
}

/// The stream itself, its labels besides their text, and its row in the table of ids.
const FOUND_OVERHEAD_BYTES: usize = size_of::<FoundStream>() + 48 + 32;

/// See the module. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct ScanStreams {
    held: Arc<StreamSnapshots>,
    found: Arc<Vec<FoundStream>>,
}

impl From<StreamSnapshots> for ScanStreams {
    fn from(held: StreamSnapshots) -> ScanStreams {
        ScanStreams { held: Arc::new(held), found: Arc::default() }
    }
}

impl ScanStreams {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.held.len() + self.found.len()
    }

    /// The streams of the shard's memory, which have the first numbers.
    pub(super) fn held(&self) -> &[StreamSnapshot] {
        &self.held
    }

    fn found(&self, stream: u32) -> &FoundStream {
        &self.found[stream as usize - self.held.len()]
    }

    /// A stream that the shard had in memory; `None` if it was found in a segment.
    pub(super) fn snapshot(&self, stream: u32) -> Option<&StreamSnapshot> {
        self.held.get(stream as usize)
    }

    /// The id of a stream.
    pub(super) fn id(&self, stream: u32) -> StreamId {
        self.snapshot(stream).map_or_else(|| self.found(stream).id, |held| held.id)
    }

    /// The labels that a stream is shown with.
    pub(super) fn labels(&self, stream: u32) -> &Arc<Labels> {
        match self.snapshot(stream) {
            Some(held) => &held.labels,
            None => &self.found(stream).labels,
        }
    }

    /// The requests for deletion that may hide entries of a stream.
    pub(super) fn deletions(&self, stream: u32) -> Option<&StreamDeletions> {
        match self.snapshot(stream) {
            Some(held) => held.deletions.as_deref(),
            None => self.found(stream).deletions.as_deref(),
        }
    }

    /// The blocks of a stream's head.
    pub(super) fn head_blocks(&self, stream: u32) -> &[HeadBlockRef] {
        self.snapshot(stream).map_or(&[], |held| &held.blocks)
    }

    /// Ids by number.
    pub(super) fn ids(&self) -> impl Iterator<Item = StreamId> + '_ {
        self.held.iter().map(|held| held.id).chain(self.found.iter().map(|found| found.id))
    }

    /// Labels by number.
    pub(super) fn all_labels(&self) -> impl Iterator<Item = &Arc<Labels>> {
        let held = self.held.iter().map(|held| &held.labels);
        held.chain(self.found.iter().map(|found| &found.labels))
    }

    /// Adds streams, which get the next numbers. It copies the streams that were found before if
    /// somebody else has a clone.
    pub(super) fn add(&mut self, found: Vec<FoundStream>) {
        Arc::make_mut(&mut self.found).extend(found);
    }
}
