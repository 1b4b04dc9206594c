//! The state that the scans of one core share: caches, settings, and the damaged places that were
//! logged.
//!
//! Guarantees: no borrow of it is held across a wait.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use ahash::AHashSet;
use logsvc_runtime::{Budget, Runtime, SideQueue};

use crate::manifest::SegmentName;
use crate::scan::error::ReadError;
use crate::sealed::{
    BlockCache, Cached, ColumnKey, Directories, DirectoryError, LabelRoots, SealedSegment, hasher,
};
use logsvc_segment::{Decoder, Directory, Part};

/// How long a scan computes on its core before it goes on aside. Most are done by then, and
/// need not wait for the CPU behind long ones.
const FIRST_SLICE: Duration = Duration::from_millis(2);

/// How long a scan takes before it counts as heavy. One that looks at a few blocks is done by
/// then, even while cores and sealing take most of the CPU.
const HEAVY_AFTER: Duration = Duration::from_millis(100);

/// Decoders that are kept for the next scan.
const DECODERS_MAX: usize = 8;

/// Settings of the scans of one core.
#[derive(Clone, Debug)]
pub struct ScanConfig {
    /// Memory for decoded blocks of segments; shared by all cores of the node, each of
    /// which may take an equal part.
    pub cache: Budget,
    /// Memory for directories of segments; shared by all cores of the node.
    pub directories: Budget,
    /// Memory for queries; shared by all cores of the node. Scans reserve from it the memory of the
    /// columns that they work on.
    pub queries: Budget,
    /// A scan that has decoded so many bytes, or found them decoded, offers its rest to all
    /// cores.
    pub divide_after_bytes: u64,
    /// A scan that has taken so long is computed on side threads from then on.
    pub first_slice: Duration,
    /// A scan that has taken so long gets less of the CPU than others from then on.
    pub heavy_after: Duration,
}

impl ScanConfig {
    /// Scans with this memory for decoded blocks, for directories, and for queries.
    pub fn new(cache: Budget, directories: Budget, queries: Budget) -> ScanConfig {
        ScanConfig {
            cache,
            directories,
            queries,
            divide_after_bytes: 8 << 20,
            first_slice: FIRST_SLICE,
            heavy_after: HEAVY_AFTER,
        }
    }
}

/// The state that scans on one core share.
pub struct ScanEnv<R: Runtime> {
    /// The core.
    pub runtime: R,
    /// Its open segment files, and directories of segments.
    pub directories: Rc<Directories<R>>,
    /// Roots of the label indexes of segments.
    pub(crate) label_roots: LabelRoots,
    /// Its decoded blocks.
    pub cache: BlockCache,
    /// Memory for the columns that scans work on.
    pub(crate) queries: Budget,
    pub(super) divide_after_bytes: u64,
    pub(super) first_slice: Duration,
    pub(super) heavy_after: Duration,
    pub(super) decoders: Decoders,
    /// Places that could not be read, so that each is logged once and not by each query.
    /// Never held across a wait.
    damaged: RefCell<AHashSet<(SegmentName, u64)>>,
}

/// Decoders that no scan uses.
#[derive(Debug, Default)]
pub(super) struct Decoders(RefCell<Vec<Decoder>>);

impl Decoders {
    pub(super) fn take(&self) -> Decoder {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    pub(super) fn give_back(&self, decoder: Decoder) {
        let mut unused = self.0.borrow_mut();
        if unused.len() < DECODERS_MAX {
            unused.push(decoder);
        }
    }
}

/// So many damaged places are remembered; further places are logged each time.
const DAMAGED_MAX: usize = 4096;

impl<R: Runtime> std::fmt::Debug for ScanEnv<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ScanEnv").field("cache", &self.cache.counters()).finish_non_exhaustive()
    }
}

impl<R: Runtime> ScanEnv<R> {
    /// An environment without decoded blocks.
    pub fn new(runtime: R, config: ScanConfig, directories: Rc<Directories<R>>) -> ScanEnv<R> {
        let share_bytes = config.cache.max_bytes() / u64::from(runtime.core_count().max(1));
        let share_bytes = usize::try_from(share_bytes).unwrap_or(usize::MAX);
        let label_roots = LabelRoots::new(&config.directories, runtime.core_count());
        ScanEnv {
            runtime,
            directories,
            label_roots,
            cache: BlockCache::new(&config.cache, share_bytes),
            queries: config.queries,
            divide_after_bytes: config.divide_after_bytes,
            first_slice: config.first_slice,
            heavy_after: config.heavy_after,
            decoders: Decoders::default(),
            damaged: RefCell::new(AHashSet::with_hasher(hasher())),
        }
    }

    /// Computes something, on a side thread if a queue is given.
    pub(super) async fn compute<T: Send + 'static>(
        &self,
        aside: Option<SideQueue>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        match aside {
            Some(queue) => self.runtime.offload_to(queue, work).await,
            None => work(),
        }
    }

    /// Keeps columns that were decoded for scans to come.
    pub(super) fn keep(&self, fresh: Vec<(ColumnKey, Cached)>) {
        for (key, column) in fresh {
            self.cache.put(key, column);
        }
    }

    /// Logs a place of a segment that cannot be read, the first time.
    pub(super) fn note_damage(
        &self,
        segment: &SealedSegment,
        directory: Option<&Directory>,
        what: &str,
        error: &ReadError,
    ) {
        let footer = &segment.footer;
        let offset = match (error, directory) {
            (ReadError::Damaged(error), Some(directory)) => directory.offset_of(error.part),
            // Nothing else is read without a directory.
            (ReadError::Damaged(error), None)
            | (ReadError::Directory(DirectoryError::Damaged(error)), _) => match error.part {
                Part::LabelIndex => footer.label_index_range().map_or(0, |range| range.start),
                _ => footer.directory_offset,
            },
            (ReadError::Directory(DirectoryError::Io(_)), _) => footer.directory_offset,
            (ReadError::Filter(_), _) => footer.filters_offset,
            (ReadError::Io { offset, .. }, _) => *offset,
        };
        if !matches!(error, ReadError::Io { .. }) {
            self.directories.files.suspect(segment);
        }
        let mut damaged = self.damaged.borrow_mut();
        let place = (segment.live.name, offset);
        if damaged.contains(&place) {
            return;
        }
        if damaged.len() < DAMAGED_MAX {
            damaged.insert(place);
        }
        tracing::error!(
            file = %segment.path.display(), offset, what, %error,
            "a part of a segment cannot be read; queries leave it out and say so"
        );
    }
}
