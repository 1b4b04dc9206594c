//! Sealed segments as a shard uses them: written from heads, opened at start, read by scans.
//!
//! Guarantees: a [`SealedSegment`] never changes, and any core may read it. Its file is complete
//! and on stable storage. The format is elsewhere and does no I/O; this module does the I/O and
//! knows no format.

mod arrange;
mod bundles;
mod cache;
mod conditions;
mod days;
mod directories;
mod encode;
mod files;
mod folder;
mod job;
mod label_roots;
mod late_rows;
mod open;
mod output;
mod reads;
mod removals;
mod source;
mod spare;
mod tail;
mod write;

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use ahash::RandomState;
use logsvc_proto::StreamId;

use crate::manifest::{FooterRecord, LiveSegment};
use crate::types::StreamPartitions;
use logsvc_segment::{Footer, RowSet};

pub(crate) use bundles::{Bundle, BundleMap, open_bundles};
pub(crate) use cache::{BlockCache, CacheCounters};
pub(crate) use cache::{Cached, ColumnForm, ColumnKey};
pub(crate) use conditions::{Condition, Conditions, all_conditions_of, conditions_of};
use directories::SharedDirectory;
pub(crate) use directories::{Directories, DirectoryCounters, DirectoryError, HeldDirectory};
use files::LocalFiles;
pub(crate) use files::SegmentFiles;
pub(crate) use folder::SegmentFolder;
pub(crate) use folder::{NewSegment, WRITE_BYTES};
pub(crate) use job::{DraftFlag, SealJob, SealStream};
pub(crate) use label_roots::LabelRoots;
pub(crate) use late_rows::LateRows;
#[cfg(test)]
pub(crate) use open::open_segment;
pub(crate) use open::{RestoredSegments, open_all};
pub(crate) use reads::ReadCounters;
pub(crate) use removals::Removals;
pub(crate) use source::{REQUEST_MAX_BYTES, SegmentSource, StoredSegment};
pub(crate) use spare::Spare;
pub(crate) use tail::verify_tail;
#[cfg(test)]
pub(crate) use tail::write_tail;
pub(crate) use write::Sealer;

/// A segment as it stays in memory as long as it is live: a record of fixed size. Its
/// directory is with [`Directories`].
#[derive(Debug)]
pub struct SealedSegment {
    /// Its record in the manifest.
    pub live: LiveSegment,
    /// The path of its file.
    pub path: PathBuf,
    /// The footer: the ranges of the segment's parts, and its totals.
    pub footer: Footer,
    /// Streams that had left it before the shard has opened it: their entries are elsewhere, or were
    /// deleted, and no reader must see them here. Also those that it cannot have although its name
    /// says so.
    pub(crate) left: StreamPartitions,
    /// Whether entries of the file may not count, since their streams have left it.
    pub(crate) has_gone: bool,
    /// The same segment as it was in the shard's list before the shard owned other partitions. Scans
    /// may hold it.
    pub(crate) before: Option<Arc<SealedSegment>>,
    /// The smallest order of the segments that it was made of, or its own. An entry of it came no
    /// earlier into a segment.
    pub(crate) first_order: u64,
    /// The streams that may have entries in older segments at the times of this one, so that an
    /// entry may be stored twice; any, as long as nothing is known of them.
    late: OnceLock<LateRows>,
    /// See [`Finished`](logsvc_segment::Finished); 0 if it was not written since the start.
    pub(crate) refused_blocks: u32,
    shared_directory: SharedDirectory,
    /// Tells every core that has the file open when it has gone, and when the last holder has dropped
    /// the segment.
    local: Arc<LocalFiles>,
}

impl SealedSegment {
    /// A segment with this footer.
    pub(crate) fn new(live: LiveSegment, path: PathBuf, footer: Footer) -> SealedSegment {
        let shared_directory = SharedDirectory::default();
        SealedSegment {
            live,
            path,
            footer,
            left: StreamPartitions::default(),
            has_gone: false,
            before: None,
            first_order: live.order,
            late: OnceLock::new(),
            refused_blocks: 0,
            shared_directory,
            local: Arc::default(),
        }
    }

    /// The same without streams that had left it when it was opened.
    #[must_use]
    pub(crate) fn that_was_left_by(mut self, left: StreamPartitions) -> SealedSegment {
        self.has_gone = !left.is_empty();
        self.left = left;
        self
    }

    /// Whether scans may still read it, if this is the only reference.
    pub(crate) fn is_read(self: &Arc<SealedSegment>) -> bool {
        let before = self.before.as_ref().is_some_and(SealedSegment::is_read);
        Arc::strong_count(self) > 1 || before
    }

    /// The path of its tail, see [`write_tail`].
    pub(crate) fn tail_path(&self) -> PathBuf {
        self.path.with_file_name(self.live.name.tail_file_name())
    }

    /// Its footer as the edit repeats it that makes the segment live.
    pub(crate) fn footer_record(&self) -> FooterRecord {
        FooterRecord::of(self.live.name, &self.footer)
    }

    /// Whether a stream may have entries in older segments at the times of this one.
    pub(crate) fn is_late(&self, row: u32) -> bool {
        self.late.get().is_none_or(|late| late.contains(row))
    }

    /// Notes the streams that may have such entries, if they are known and were not known before.
    pub(crate) fn note_late_rows(&self, rows: Option<&RowSet>) {
        let Some(rows) = rows else { return };
        self.late.get_or_init(|| LateRows::of(rows, self.footer.totals.streams));
    }

    /// Whether its entries of a stream count.
    pub(crate) fn has_live(&self, stream: StreamId) -> bool {
        !self.left.contains(stream)
    }
}

/// A segment whose directory was just read or written.
#[derive(Debug)]
pub struct OpenedSegment {
    /// The segment.
    pub segment: SealedSegment,
    /// Its directory.
    pub directory: Arc<HeldDirectory>,
}

/// The hasher of this module's maps.
pub(crate) fn hasher() -> RandomState {
    RandomState::with_seeds(0x7365_616c, 0x6564_2d73, 0x6567_6d65, 0x6e74_7321)
}
