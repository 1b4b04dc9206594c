//! The directories of segments, kept as far as there is memory for them.
//!
//! A directory takes about 57 bytes for each stream of its segment, so the directories of many
//! segments with many streams do not fit. A record of fixed size ([`SealedSegment`]) stays with
//! each segment. Its directory is kept while there is room, and read again on demand: one read
//! at a known place.
//!
//! Each read checks the directory in full: the checksum, the structure of the archive, and the
//! rows. The bytes come from the disk each time, and accessors read them without further checks
//! ([`Directory`]). Arbitrary bytes pass a checksum with a chance of one in four billion, so a
//! checksum alone is not enough.
//!
//! Guarantees: each core keeps at most its share of the budget: the directories that were used
//! last, and up to an eighth of it directories that were written and not used yet. A directory that
//! several cores use at once is in memory once. No request is refused: a directory without room is
//! handed out, counts in [`DirectoryCounters::excess_bytes`], and goes with its last user. It fails
//! if the disk refuses, or if the directory is damaged.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Deref;
#[expect(clippy::disallowed_types, reason = "it is only tried, so that no core waits for it")]
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use ahash::HashMap;
use logsvc_runtime::{Budget, Latch, Reservation, Runtime};
use logsvc_store::Store;

use super::{Bundle, SealedSegment, SegmentFiles, hasher};
use crate::manifest::SegmentName;
use logsvc_segment::filter::BundleHead;
use logsvc_segment::{Directory, SegmentError};

/// A directory in memory, which is counted until its last holder drops it.
#[derive(Debug)]
pub struct HeldDirectory {
    directory: Directory,
    /// Owners for it, if the budget had room.
    _memory: Option<Reservation>,
    excess: Option<Excess>,
}

impl Deref for HeldDirectory {
    type Target = Directory;

    fn deref(&self) -> &Directory {
        &self.directory
    }
}

/// Counts bytes that the budget had no room for.
#[derive(Debug)]
struct Excess {
    total_bytes: Arc<AtomicU64>,
    bytes: u64,
}

impl Drop for Excess {
    fn drop(&mut self) {
        self.total_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// A segment's directory, if some core has it in memory. All cores share it.
#[derive(Debug, Default)]
pub(super) struct SharedDirectory {
    #[expect(clippy::disallowed_types, reason = "it is only tried, so that no core waits for it")]
    held: Mutex<Weak<HeldDirectory>>,
}

impl SharedDirectory {
    /// The directory, if it is in memory. `None` also while another core reads or sets this.
    fn get(&self) -> Option<Arc<HeldDirectory>> {
        self.held.try_lock().ok()?.upgrade()
    }

    /// Shares a directory. While another core reads or sets this, it stays as it is, and one
    /// core more reads the directory from the disk.
    fn set(&self, directory: &Arc<HeldDirectory>) {
        if let Ok(mut held) = self.held.try_lock() {
            *held = Arc::downgrade(directory);
        }
    }
}

/// Why a directory, or the root of a label index, is not there.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The disk refuses.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// The bytes are damaged.
    #[error(transparent)]
    Damaged(#[from] SegmentError),
}

impl From<DirectoryError> for io::Error {
    fn from(error: DirectoryError) -> io::Error {
        match error {
            DirectoryError::Io(error) => error,
            DirectoryError::Damaged(error) => io::Error::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// The work of a core on directories since the start, and the directories that it keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DirectoryCounters {
    /// Times that one was needed and in memory.
    pub hits: u64,
    /// Times that one was read.
    pub loads: u64,
    /// Times that one had to go for another one.
    pub evictions: u64,
    /// The number of kept directories.
    pub held: u64,
    /// Bytes of the kept directories.
    pub held_bytes: u64,
    /// Bytes in use for which the budget had no room.
    pub excess_bytes: u64,
}

#[derive(Debug)]
struct Kept {
    directory: Arc<HeldDirectory>,
    bytes: u64,
    used_at: u64,
    /// Whether a scan or a job has asked for it.
    was_asked_for: bool,
}

#[derive(Debug)]
struct State {
    kept: HashMap<SegmentName, Kept>,
    /// The directories that are kept, by the time of their last use.
    by_use: BTreeMap<u64, SegmentName>,
    /// The kept directories that no scan and no job has asked for, and their bytes.
    unasked: BTreeMap<u64, SegmentName>,
    unasked_bytes: u64,
    uses: u64,
    /// The directories that are being read, so that each is read once, however many tasks wait for
    /// it.
    loading: HashMap<SegmentName, Latch>,
    counters: DirectoryCounters,
}

/// So many bytes of directories that were not asked for may be kept in any case.
const UNASKED_MIN_BYTES: u64 = 64 << 10;

/// See the module. One per core.
#[derive(Debug)]
pub struct Directories<R: Runtime> {
    runtime: R,
    /// The core's open segment files.
    pub files: SegmentFiles<R>,
    budget: Budget,
    share_bytes: u64,
    unasked_max_bytes: u64,
    excess_bytes: Arc<AtomicU64>,
    /// Never held across a wait.
    state: RefCell<State>,
}

/// Ends the reading of a directory, also when the task that reads it is dropped.
struct Loading<'a> {
    state: &'a RefCell<State>,
    name: SegmentName,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        let latch = self.state.borrow_mut().loading.remove(&self.name);
        if let Some(latch) = latch {
            latch.trigger();
        }
    }
}

impl<R: Runtime> Directories<R> {
    /// Nothing yet. The core keeps at most its share of `budget`, which all cores of the
    /// node share.
    pub fn new(runtime: R, budget: &Budget) -> Directories<R> {
        let share_bytes = budget.max_bytes() / u64::from(runtime.core_count().max(1));
        Directories {
            runtime,
            files: SegmentFiles::new(None),
            budget: budget.clone(),
            share_bytes,
            unasked_max_bytes: (share_bytes / 8).max(UNASKED_MIN_BYTES),
            excess_bytes: Arc::default(),
            state: RefCell::new(State {
                kept: HashMap::with_hasher(hasher()),
                by_use: BTreeMap::new(),
                unasked: BTreeMap::new(),
                unasked_bytes: 0,
                uses: 0,
                loading: HashMap::with_hasher(hasher()),
                counters: DirectoryCounters::default(),
            }),
        }
    }

    /// Reads segments whose files are not there from a bucket, if one is given.
    #[must_use]
    pub fn with_store(self, store: Option<Store<R>>) -> Directories<R> {
        Directories { files: SegmentFiles::new(store), ..self }
    }

    /// The most bytes that this core keeps.
    pub fn share_bytes(&self) -> u64 {
        self.share_bytes
    }

    /// The totals since the start, and the directories that are kept.
    pub fn counters(&self) -> DirectoryCounters {
        let excess_bytes = self.excess_bytes.load(Ordering::Relaxed);
        DirectoryCounters { excess_bytes, ..self.state.borrow().counters }
    }

    /// The directory of a segment, read if need be.
    ///
    /// # Errors
    /// The directory cannot be read, or does not check.
    pub async fn get(&self, segment: &SealedSegment) -> Result<Arc<HeldDirectory>, DirectoryError> {
        loop {
            if let Some(found) = self.find(segment) {
                return Ok(found);
            }
            let name = segment.live.name;
            let under_way = self.state.borrow().loading.get(&name).cloned();
            match under_way {
                // The other read may fail, so the loop looks again.
                Some(latch) => latch.wait().await,
                None => break,
            }
        }
        let name = segment.live.name;
        self.state.borrow_mut().loading.insert(name, Latch::new());
        let _loading = Loading { state: &self.state, name };
        let range = segment.footer.directory_range();
        let open = |bytes| Directory::open(segment.footer, bytes);
        let directory = self.files.read_part(&self.runtime, segment, range, open).await?;
        self.state.borrow_mut().counters.loads += 1;
        Ok(self.keep(segment, directory, true))
    }

    fn find(&self, segment: &SealedSegment) -> Option<Arc<HeldDirectory>> {
        let state = &mut *self.state.borrow_mut();
        let kept = state.kept.get_mut(&segment.live.name);
        let found = match kept {
            Some(kept) => {
                state.uses += 1;
                state.by_use.remove(&kept.used_at);
                state.by_use.insert(state.uses, segment.live.name);
                if !std::mem::replace(&mut kept.was_asked_for, true) {
                    state.unasked.remove(&kept.used_at);
                    state.unasked_bytes -= kept.bytes;
                }
                kept.used_at = state.uses;
                Arc::clone(&kept.directory)
            }
            // Another core keeps it, or a holder has it although this core does not keep it.
            None => segment.shared_directory.get()?,
        };
        state.counters.hits += 1;
        Some(found)
    }

    /// Takes a directory over that was just written, or read at start. No scan has asked for it
    /// yet, and none may ever ask if the segment is merged soon.
    pub(crate) fn admit(
        &self,
        segment: &SealedSegment,
        directory: Directory,
    ) -> Arc<HeldDirectory> {
        self.keep(segment, directory, false)
    }

    fn keep(
        &self,
        segment: &SealedSegment,
        directory: Directory,
        was_asked_for: bool,
    ) -> Arc<HeldDirectory> {
        let bytes = directory.held_bytes() as u64;
        let mut state = self.state.borrow_mut();
        let mut is_kept = bytes <= self.share_bytes;
        if !was_asked_for {
            is_kept &= bytes <= self.unasked_max_bytes;
            while is_kept
                && state.unasked_bytes + bytes > self.unasked_max_bytes
                && state.evict_oldest_unasked()
            {}
        }
        while is_kept
            && state.counters.held_bytes + bytes > self.share_bytes
            && state.evict_oldest()
        {}
        let mut memory = self.budget.try_reserve(bytes);
        // This core has to make up for the bytes that other cores and running scans hold in excess
        // of their share.
        while memory.is_none() && state.evict_unused() {
            memory = self.budget.try_reserve(bytes);
        }
        let is_kept = is_kept && memory.is_some();
        let excess = memory.is_none().then(|| {
            self.excess_bytes.fetch_add(bytes, Ordering::Relaxed);
            Excess { total_bytes: Arc::clone(&self.excess_bytes), bytes }
        });
        let directory = Arc::new(HeldDirectory { directory, _memory: memory, excess });
        segment.shared_directory.set(&directory);
        if is_kept {
            state.keep(segment.live.name, Arc::clone(&directory), bytes, was_asked_for);
        }
        directory
    }

    /// Keeps the head of a bundle that was read, as long as there is the bundle. It goes before the
    /// directories that are not in use: it tells which of the directories of many segments are to
    /// be read. If even then there is no room, it is read again.
    pub(crate) fn keep_head(&self, bundle: &Bundle, head: BundleHead) {
        let bytes = head.held_bytes() as u64;
        let mut state = self.state.borrow_mut();
        let mut memory = self.budget.try_reserve(bytes);
        while memory.is_none() && bytes <= self.share_bytes && state.evict_unused() {
            memory = self.budget.try_reserve(bytes);
        }
        if let Some(memory) = memory {
            bundle.keep_head(head, memory);
        }
    }

    /// Gives up the directory of a segment that is not live any more.
    pub(crate) fn forget(&self, name: SegmentName) {
        self.state.borrow_mut().take(name);
    }
}

impl State {
    fn keep(
        &mut self,
        name: SegmentName,
        directory: Arc<HeldDirectory>,
        bytes: u64,
        was_asked_for: bool,
    ) {
        self.take(name);
        self.uses += 1;
        self.by_use.insert(self.uses, name);
        if !was_asked_for {
            self.unasked.insert(self.uses, name);
            self.unasked_bytes += bytes;
        }
        self.kept.insert(name, Kept { directory, bytes, used_at: self.uses, was_asked_for });
        self.counters.held += 1;
        self.counters.held_bytes += bytes;
    }

    fn take(&mut self, name: SegmentName) {
        if let Some(kept) = self.kept.remove(&name) {
            self.by_use.remove(&kept.used_at);
            if !kept.was_asked_for {
                self.unasked.remove(&kept.used_at);
                self.unasked_bytes -= kept.bytes;
            }
            self.counters.held -= 1;
            self.counters.held_bytes -= kept.bytes;
        }
    }

    /// Gives back the memory of the oldest directory that is not in use. Returns whether there was
    /// one.
    fn evict_unused(&mut self) -> bool {
        let is_unused = |name: &&SegmentName| {
            self.kept.get(name).is_some_and(|kept| Arc::strong_count(&kept.directory) == 1)
        };
        let Some(&name) = self.by_use.values().find(is_unused) else { return false };
        self.take(name);
        self.counters.evictions += 1;
        true
    }

    /// Returns whether there was one.
    fn evict_oldest_unasked(&mut self) -> bool {
        let Some((_, &name)) = self.unasked.first_key_value() else { return false };
        self.take(name);
        self.counters.evictions += 1;
        true
    }

    /// Returns whether there was one.
    fn evict_oldest(&mut self) -> bool {
        let Some((_, &name)) = self.by_use.first_key_value() else { return false };
        self.take(name);
        self.counters.evictions += 1;
        true
    }
}

impl HeldDirectory {
    /// Whether the budget had no room for it.
    pub fn is_in_excess(&self) -> bool {
        self.excess.is_some()
    }
}

#[cfg(test)]
pub(super) mod tests;
