//! Sealed segments as a shard uses them: written from heads, opened at start, read
//! by scans.
//!
//! Guarantees: a [`SealedSegment`] never changes and may be read by any core; its
//! file is complete and on stable storage. The format is in [`crate::segment`] and
//! knows no I/O; this module does the I/O and knows no format.

mod arrange;
mod cache;
mod days;
mod files;
mod folder;
mod open;
mod write;

use std::path::PathBuf;
use std::sync::Arc;

use ahash::{AHashSet, RandomState};

use crate::manifest::LiveSegment;
use crate::segment::Directory;

pub use cache::{BlockCache, CacheCounters};
pub(crate) use cache::{Cached, ColumnKey};
pub use files::SegmentFiles;
pub(crate) use folder::NewSegment;
pub use folder::SegmentFolder;
pub(crate) use open::open_all;
pub use open::open_segment;
pub use write::Sealer;

/// A segment whose directory is in memory.
#[derive(Debug)]
pub struct SealedSegment {
    /// What the manifest says of it.
    pub live: LiveSegment,
    /// Where it is.
    pub path: PathBuf,
    /// Its directory.
    pub directory: Directory,
    /// Ordinals of those streams that may have entries in earlier segments at the
    /// times of this one, so that an entry may be there twice.
    pub(crate) late: AHashSet<u32>,
    /// See [`Finished`](crate::segment::Finished); 0 if it was not written since the start.
    pub(crate) refused_blocks: u32,
    /// Tells every core that has the file open when nobody holds the segment any more.
    alive: Arc<()>,
}

impl SealedSegment {
    /// A segment whose directory was opened.
    pub(crate) fn new(live: LiveSegment, path: PathBuf, directory: Directory) -> SealedSegment {
        let late = AHashSet::with_hasher(hasher());
        SealedSegment { live, path, directory, late, refused_blocks: 0, alive: Arc::new(()) }
    }
}

/// The hasher of this module's maps.
pub(crate) fn hasher() -> RandomState {
    RandomState::with_seeds(0x7365_616c, 0x6564_2d73, 0x6567_6d65, 0x6e74_7321)
}
