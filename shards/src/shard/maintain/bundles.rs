//! Which segments get their filters joined into a bundle, and which bundles go.
//!
//! Settled segments are bundled: those that are too large to be merged again, and those of days that
//! are over, once nothing is to be merged. The oldest come first, so the segments of a bundle lie
//! close in time.
//!
//! Guarantees: a bundle goes when most of its blocks are of segments that are gone; when a scan could
//! not read it; and, before a removal of deleted entries ends, when any of its segments is gone: its
//! bits tell of their texts.

use std::sync::Arc;

use ahash::{AHashMap, AHashSet};

use super::super::Shard;
use crate::compact::{BundleJob, Bundled};
use crate::manifest::SegmentName;
use crate::sealed::{Bundle, BundleMap, SealedSegment, hasher};

/// The bundles of a shard.
#[derive(Debug)]
pub(in crate::shard) struct Bundles {
    list: Vec<Arc<Bundle>>,
    by_segment: BundleMap,
    /// Segments whose filters cannot be read.
    left_out: AHashSet<SegmentName>,
}

impl Bundles {
    pub(super) fn new() -> Bundles {
        let left_out = AHashSet::with_hasher(hasher());
        Bundles { list: Vec::new(), by_segment: BundleMap::default(), left_out }
    }

    /// By segment, for a scan.
    pub(in crate::shard) fn by_segment(&self) -> &BundleMap {
        &self.by_segment
    }

    /// Bytes of their files.
    pub(in crate::shard) fn file_bytes(&self) -> u64 {
        self.list.iter().map(|bundle| bundle.len_bytes).sum()
    }

    /// How many there are.
    pub(in crate::shard) fn count(&self) -> usize {
        self.list.len()
    }
}

impl Shard {
    /// The segments of the next bundle, if there are enough.
    pub(super) fn bundle_job(&self) -> Option<BundleJob> {
        let maintenance = &self.maintenance;
        let policy = &maintenance.config.compaction;
        if !policy.enabled || maintenance.purge.is_some() {
            return None;
        }
        let newest = self.segments.iter().map(|segment| segment.live.day).max()?;
        let is_due = |segment: &&Arc<SealedSegment>| {
            let live = &segment.live;
            let is_settled = live.day != newest || live.line_bytes >= policy.target_line_bytes / 2;
            let has_filters =
                !segment.footer.is_draft && !segment.footer.filters_range().is_empty();
            let is_own = !segment.has_gone && !maintenance.is_shared(segment);
            let is_readable = maintenance.is_mergeable(segment)
                && !maintenance.bundles.left_out.contains(&live.name);
            let is_bundled = maintenance.bundles.by_segment.get(live.name).is_some();
            is_settled && has_filters && is_own && is_readable && !is_bundled
        };
        let mut segments: Vec<_> = self.segments.iter().filter(is_due).cloned().collect();
        if segments.len() < policy.min_bundled.max(1) {
            return None;
        }
        segments.sort_by_key(|segment| (segment.live.day, segment.live.order));
        let mut blocks = 0;
        let fits = |segment: &&Arc<SealedSegment>| {
            blocks += u64::from(segment.footer.totals.blocks);
            blocks <= policy.max_bundled_blocks
        };
        let count = segments.iter().take(policy.max_bundled).take_while(fits).count();
        segments.truncate(count.max(1));
        Some(BundleJob { segments, throttle: Arc::clone(&maintenance.throttle) })
    }

    /// Takes over the outcome of a job.
    pub(super) fn note_bundled(&mut self, bundled: Bundled) {
        match bundled {
            Bundled::Made(bundle) => self.add_bundles(vec![bundle]),
            Bundled::Unreadable(segment) => {
                self.maintenance.bundles.left_out.insert(segment);
            }
        }
    }

    /// Takes over bundles of segments, some of which may be gone.
    pub(in crate::shard) fn add_bundles(&mut self, bundles: Vec<Arc<Bundle>>) {
        let own = &mut self.maintenance.bundles;
        bundles.iter().for_each(|bundle| own.by_segment.add(bundle, &self.segments));
        own.list.extend(bundles);
        self.maintenance.segments_changed();
    }

    /// Takes bundles out that are of little use, or that must go.
    pub(super) fn take_stale_bundles(&mut self) -> Vec<Arc<Bundle>> {
        let bundles = &mut self.maintenance.bundles;
        if bundles.list.is_empty() {
            return Vec::new();
        }
        // By bundle: its blocks that are of live segments.
        let mut live_blocks: AHashMap<*const Bundle, usize> = AHashMap::with_hasher(hasher());
        for segment in &self.segments {
            if let Some(bundle) = bundles.by_segment.get(segment.live.name) {
                let blocks = bundle.blocks_of(segment.live.name).map_or(0, |blocks| blocks.len());
                *live_blocks.entry(Arc::as_ptr(bundle)).or_default() += blocks;
            }
        }
        let purges = self.maintenance.purge.is_some();
        let is_stale = |bundle: &mut Arc<Bundle>| {
            let live = live_blocks.get(&Arc::as_ptr(bundle)).copied().unwrap_or(0);
            let all = bundle.block_count();
            bundle.is_unreadable() || live * 2 < all || all == 0 || (purges && live < all)
        };
        let stale: Vec<Arc<Bundle>> = bundles.list.extract_if(.., is_stale).collect();
        stale.iter().for_each(|bundle| bundles.by_segment.remove(bundle));
        stale
    }
}
