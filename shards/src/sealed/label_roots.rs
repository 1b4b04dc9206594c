//! The roots of the label indexes of segments, kept as far as there is memory for them.
//!
//! A root tells which pages of a label index a lookup has to read. It takes some KiB, so most
//! segments of a node have theirs in memory. Pages are read each time: they are small, and the
//! system's page cache has the ones that are asked for again.
//!
//! Guarantees: each core keeps at most its share, the roots that were used last. No request is
//! refused: a root without room is handed out, and goes with its user. It fails if the disk refuses,
//! or if the root is damaged.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use ahash::HashMap;
use logsvc_runtime::{Budget, Reservation, Runtime};

use super::{DirectoryError, SealedSegment, SegmentFiles, hasher};
use crate::manifest::SegmentName;
use logsvc_segment::LabelIndex;

/// The part of the memory for directories that roots may take on a core.
const SHARE_OF_DIRECTORIES: u64 = 4;

#[derive(Debug)]
struct Kept {
    root: Arc<LabelIndex>,
    used_at: u64,
    memory: Reservation,
}

#[derive(Debug)]
struct State {
    kept: HashMap<SegmentName, Kept>,
    by_use: BTreeMap<u64, SegmentName>,
    uses: u64,
    held_bytes: u64,
}

/// See the module. One per core.
#[derive(Debug)]
pub(crate) struct LabelRoots {
    budget: Budget,
    share_bytes: u64,
    /// Never held across a wait.
    state: RefCell<State>,
}

impl LabelRoots {
    /// Nothing yet. All cores share `budget` with the directories.
    pub(crate) fn new(budget: &Budget, cores: u16) -> LabelRoots {
        let share_bytes = budget.max_bytes() / u64::from(cores.max(1)) / SHARE_OF_DIRECTORIES;
        LabelRoots {
            budget: budget.clone(),
            share_bytes,
            state: RefCell::new(State {
                kept: HashMap::with_hasher(hasher()),
                by_use: BTreeMap::new(),
                uses: 0,
                held_bytes: 0,
            }),
        }
    }

    /// The root of a segment, read if need be; `None` if the segment has no label index.
    ///
    /// # Errors
    /// The root cannot be read, or does not check.
    pub(crate) async fn get<R: Runtime>(
        &self,
        runtime: &R,
        files: &SegmentFiles<R>,
        segment: &SealedSegment,
    ) -> Result<Option<Arc<LabelIndex>>, DirectoryError> {
        let Some(range) = segment.footer.label_index_root_range() else { return Ok(None) };
        let name = segment.live.name;
        if let Some(root) = self.state.borrow_mut().find(name) {
            return Ok(Some(root));
        }
        let open = |bytes| LabelIndex::open(&segment.footer, bytes);
        let root = Arc::new(files.read_part(runtime, segment, range, open).await?);
        segment.note_late_rows(root.late_rows());
        self.keep(name, &root);
        Ok(Some(root))
    }

    fn keep(&self, name: SegmentName, root: &Arc<LabelIndex>) {
        let bytes = root.held_bytes() as u64;
        if bytes > self.share_bytes {
            return;
        }
        let mut state = self.state.borrow_mut();
        while state.held_bytes + bytes > self.share_bytes && state.evict_oldest() {}
        let mut memory = self.budget.try_reserve(bytes);
        while memory.is_none() && state.evict_oldest() {
            memory = self.budget.try_reserve(bytes);
        }
        if let Some(memory) = memory {
            state.keep(name, Arc::clone(root), memory);
        }
    }

    /// Gives up the root of a segment that is not live any more.
    pub(crate) fn forget(&self, name: SegmentName) {
        self.state.borrow_mut().take(name);
    }
}

impl State {
    fn find(&mut self, name: SegmentName) -> Option<Arc<LabelIndex>> {
        let kept = self.kept.get_mut(&name)?;
        self.uses += 1;
        self.by_use.remove(&kept.used_at);
        self.by_use.insert(self.uses, name);
        kept.used_at = self.uses;
        Some(Arc::clone(&kept.root))
    }

    fn keep(&mut self, name: SegmentName, root: Arc<LabelIndex>, memory: Reservation) {
        self.take(name);
        self.uses += 1;
        self.by_use.insert(self.uses, name);
        self.held_bytes += memory.bytes();
        self.kept.insert(name, Kept { root, used_at: self.uses, memory });
    }

    fn take(&mut self, name: SegmentName) {
        if let Some(kept) = self.kept.remove(&name) {
            self.by_use.remove(&kept.used_at);
            self.held_bytes -= kept.memory.bytes();
        }
    }

    /// Returns whether there was one.
    fn evict_oldest(&mut self) -> bool {
        let Some((_, &name)) = self.by_use.first_key_value() else { return false };
        self.take(name);
        true
    }
}
