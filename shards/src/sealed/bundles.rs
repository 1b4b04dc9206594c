//! Bundles: the filters of many segments in one file, joined slice by slice.
//!
//! Filters of a segment tell which of its blocks may have a text. A bundle tells it of all blocks of
//! tens of segments, for the same number of reads, and before their directories are read. It is
//! derived from the segments and stands beside them: a segment without a bundle is asked itself.
//!
//! Guarantees: a bundle never rules out a block that the filters of its segment do not rule out. A
//! bundle that is lost or damaged costs reads, and no answer.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use ahash::HashMap;
use logsvc_runtime::{Reservation, Runtime};

use super::{SealedSegment, hasher};
use crate::manifest::{SegmentName, bundles_dir, read_bundle_head};
use crate::types::Layout;
use logsvc_segment::filter::{BundleHead, BundledSegment};

/// A bundle of a shard.
#[derive(Debug)]
pub(crate) struct Bundle {
    pub(crate) path: PathBuf,
    /// Of the file.
    pub(crate) len_bytes: u64,
    /// All blocks.
    block_count: usize,
    segments: HashMap<SegmentName, Bundled>,
    /// The head, once it was asked for and there was room for it.
    head: OnceLock<(BundleHead, Reservation)>,
    /// Whether a scan could not read it.
    is_unreadable: AtomicBool,
}

/// A segment of a bundle.
#[derive(Debug)]
struct Bundled {
    /// Its blocks among those of the bundle.
    blocks: Range<usize>,
    filters_crc: u32,
}

/// The bundles of a shard's segments, by segment. A clone stays as it is, so a scan keeps what it
/// began with.
#[derive(Clone, Debug)]
pub(crate) struct BundleMap(Arc<HashMap<SegmentName, Arc<Bundle>>>);

impl Default for BundleMap {
    fn default() -> BundleMap {
        BundleMap(Arc::new(HashMap::with_hasher(hasher())))
    }
}

impl BundleMap {
    /// The bundle that has the filters of a segment.
    pub(crate) fn get(&self, segment: SegmentName) -> Option<&Arc<Bundle>> {
        self.0.get(&segment)
    }

    /// Adds the segments of a bundle that are among `segments`.
    pub(crate) fn add(&mut self, bundle: &Arc<Bundle>, segments: &[Arc<SealedSegment>]) {
        let map = Arc::make_mut(&mut self.0);
        for segment in segments.iter().filter(|segment| bundle.has(segment)) {
            map.insert(segment.live.name, Arc::clone(bundle));
        }
    }

    /// Takes the segments of a bundle out.
    pub(crate) fn remove(&mut self, bundle: &Arc<Bundle>) {
        Arc::make_mut(&mut self.0).retain(|_, other| !Arc::ptr_eq(bundle, other));
    }
}

impl Bundle {
    /// A bundle with this head.
    pub(crate) fn new(path: PathBuf, head: &BundleHead) -> Bundle {
        let mut segments = HashMap::with_hasher(hasher());
        let mut start = 0;
        for &BundledSegment { name: [epoch, shards, shard, seq], blocks, filters_crc } in
            head.segments()
        {
            let end = start + blocks as usize;
            let bundled = Bundled { blocks: start..end, filters_crc };
            segments.insert(SegmentName { epoch, shards, shard, seq }, bundled);
            start = end;
        }
        let len_bytes = head.region().end;
        Bundle {
            path,
            len_bytes,
            block_count: start,
            segments,
            head: OnceLock::new(),
            is_unreadable: AtomicBool::new(false),
        }
    }

    /// Whether it has the filters of a segment.
    fn has(&self, segment: &SealedSegment) -> bool {
        let own = self.segments.get(&segment.live.name);
        own.is_some_and(|own| {
            own.filters_crc == segment.footer.filters_crc
                && own.blocks.len() == segment.footer.totals.blocks as usize
        })
    }

    /// All blocks.
    pub(crate) fn block_count(&self) -> usize {
        self.block_count
    }

    /// The blocks of a segment among those of the bundle.
    pub(crate) fn blocks_of(&self, segment: SegmentName) -> Option<Range<usize>> {
        self.segments.get(&segment).map(|own| own.blocks.clone())
    }

    /// Whether a scan could not read it. It is to be removed then, and made anew.
    pub(crate) fn is_unreadable(&self) -> bool {
        self.is_unreadable.load(Ordering::Relaxed)
    }

    /// Notes that it cannot be read; true for the first who does.
    pub(crate) fn note_unreadable(&self) -> bool {
        !self.is_unreadable.swap(true, Ordering::Relaxed)
    }

    /// The head, if it is in memory.
    pub(crate) fn head(&self) -> Option<&BundleHead> {
        self.head.get().map(|(head, _)| head)
    }

    /// Keeps a head that was read. `memory` owns its bytes.
    pub(super) fn keep_head(&self, head: BundleHead, memory: Reservation) {
        // Another core may have kept it meanwhile.
        let _ = self.head.set((head, memory));
    }
}

/// The bundles of a shard that are in the folder. Removes what earlier starts with another number of
/// shards have left, and files that are damaged: they are made anew.
pub(crate) async fn open_bundles<R: Runtime>(
    runtime: &R,
    segments_dir: &Path,
    layout: Layout,
) -> Vec<Bundle> {
    let folder = bundles_dir(segments_dir);
    let entries = match runtime.read_dir(&folder).await {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::error!(%error, folder = %folder.display(), "bundles of filters are not read");
            return Vec::new();
        }
    };
    let core = runtime.core().0;
    let own = layout.part_of(core).numbers();
    let mut bundles = Vec::new();
    for entry in entries {
        let path = folder.join(&entry.name);
        let whole_name = entry.name.strip_suffix(".tmp").unwrap_or(&entry.name);
        let Some(name) = SegmentName::parse_bundle(whole_name) else { continue };
        if layout.core_of_file(name.writer()) != core {
            continue;
        }
        let is_own = name.writer() == own && whole_name == entry.name;
        let head = if is_own { read_bundle_head(runtime, &path).await.map(Some) } else { Ok(None) };
        match head {
            Ok(Some(head)) => bundles.push(Bundle::new(path, &head)),
            Ok(None) => remove(runtime, &path).await,
            Err(error) => {
                tracing::error!(%error, file = %path.display(), "a damaged bundle of filters is removed; it is made anew");
                remove(runtime, &path).await;
            }
        }
    }
    bundles
}

async fn remove<R: Runtime>(runtime: &R, path: &Path) {
    if let Err(error) = runtime.remove_file(path).await {
        tracing::error!(%error, file = %path.display(), "a bundle of filters cannot be removed");
    }
}

/// The path of a bundle. Its name counts the bundles of a shard and start.
pub(super) fn bundle_path(segments_dir: &Path, name: SegmentName) -> PathBuf {
    bundles_dir(segments_dir).join(name.bundle_file_name())
}
