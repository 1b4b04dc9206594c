//! The open segment files of one core, and the objects of segments whose files are not kept.
//!
//! Guarantees: at most [`OPEN_MAX`] files stay open besides the ones in use. Files are opened for
//! reading only. The file of a segment that has left the live set is closed when the next file
//! is opened, or when the shard of this core gives a segment up. So is the file of a segment that was
//! evicted ([`SegmentFiles::close`]).
//!
//! Failures: a file that cannot be opened. One that is not there is looked for in the bucket, if
//! there is a bucket; whether it has the object, the first read tells.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use ahash::HashMap;
use logsvc_runtime::{OpenMode, Runtime};
use logsvc_store::Store;

use super::reads::{ReadCounters, Reads};
use super::source::{LocalFile, Purpose};
use super::tail::write_tail;
use super::{DirectoryError, SealedSegment, SegmentSource, StoredSegment, hasher};
use crate::manifest::SegmentName;
use logsvc_segment::SegmentError;

/// How many files a core keeps open for later reads.
const OPEN_MAX: usize = 256;

/// What the cores of a node have to know of the local files of a segment. It is there as long as
/// somebody holds the segment.
#[derive(Debug, Default)]
pub(super) struct LocalFiles {
    /// How often a file has gone or come.
    changes: AtomicU32,
    tail: AtomicU8,
}

/// Nothing is known against the tail.
const TRUSTED: u8 = 0;
/// A part of it did not match its checksum.
const SUSPECT: u8 = 1;
/// All of it was checked after that.
const CHECKED: u8 = 2;

impl LocalFiles {
    fn changes(&self) -> u32 {
        self.changes.load(Ordering::Acquire)
    }

    /// Makes all cores open the files anew.
    pub(super) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::AcqRel);
        self.tail.store(TRUSTED, Ordering::Release);
    }

    /// False if all of the tail was checked already.
    fn suspect_tail(&self) -> bool {
        let (set, look) = (Ordering::AcqRel, Ordering::Acquire);
        self.tail.compare_exchange(TRUSTED, SUSPECT, set, look) != Err(CHECKED)
    }

    pub(super) fn is_tail_suspect(&self) -> bool {
        self.tail.load(Ordering::Acquire) == SUSPECT
    }

    pub(super) fn trust_tail(&self) {
        self.tail.store(CHECKED, Ordering::Release);
    }
}

/// See the module.
pub struct SegmentFiles<R: Runtime> {
    store: Option<Store<R>>,
    /// Segments that were asked for, if there is a bucket.
    used: RefCell<BTreeSet<SegmentName>>,
    reads: Rc<Reads>,
    state: RefCell<State<R>>,
}

struct State<R: Runtime> {
    open: HashMap<SegmentName, Open<R>>,
    /// In the order of opening.
    order: VecDeque<SegmentName>,
}

struct Open<R: Runtime> {
    source: SegmentSource<R>,
    local: Weak<LocalFiles>,
    /// The changes of the local files that it knows of.
    changes: u32,
}

impl<R: Runtime> Open<R> {
    /// Whether it is still the place to read from.
    fn counts(&self, local: &LocalFiles) -> bool {
        let is_lost = match &self.source {
            SegmentSource::File(_) => false,
            SegmentSource::Stored(stored) => stored.is_lost(),
        };
        self.changes == local.changes() && !is_lost
    }
}

impl<R: Runtime> std::fmt::Debug for SegmentFiles<R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.state.borrow().order).finish()
    }
}

impl<R: Runtime> SegmentFiles<R> {
    /// Nothing is open. Segments without a file are read from `store`.
    pub(super) fn new(store: Option<Store<R>>) -> SegmentFiles<R> {
        let open = HashMap::with_hasher(hasher());
        SegmentFiles {
            store,
            used: RefCell::default(),
            reads: Rc::default(),
            state: RefCell::new(State { open, order: VecDeque::new() }),
        }
    }

    /// Where reads were answered, but for those of callers who have a segment to themselves, and what
    /// was evicted.
    pub(crate) fn reads(&self) -> ReadCounters {
        self.reads.counters()
    }

    /// Whether segments may be in a bucket.
    pub(crate) fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// Where a segment is read from.
    ///
    /// # Errors
    /// The file cannot be opened.
    pub async fn get(&self, runtime: &R, segment: &SealedSegment) -> io::Result<SegmentSource<R>> {
        let name = segment.live.name;
        if self.store.is_some() {
            self.used.borrow_mut().insert(name);
        }
        if let Some(open) = self.state.borrow().open.get(&name)
            && open.counts(&segment.local)
        {
            return Ok(open.source.clone());
        }
        let changes = segment.local.changes();
        let mode = OpenMode::ReadPieces;
        let source = self.open_for(Purpose::Query, runtime, segment, mode).await?;
        self.close_unused();
        let local = Arc::downgrade(&segment.local);
        let open = Open { source: source.clone(), local, changes };
        let mut state = self.state.borrow_mut();
        if state.open.insert(name, open).is_none() {
            state.order.push_back(name);
        }
        while state.order.len() > OPEN_MAX {
            let Some(oldest) = state.order.pop_front() else { break };
            state.open.remove(&oldest);
        }
        Ok(source)
    }

    /// The segments that were asked for since the last call; none without a bucket.
    pub(crate) fn take_used(&self) -> Vec<SegmentName> {
        self.used.take().into_iter().collect()
    }

    /// Keeps only the end of a segment on the local disk. If its file is not there and its end is
    /// not, either, the bucket gives the end.
    ///
    /// # Errors
    /// The disk or the bucket refuses. The file is there then, if it was.
    pub(crate) async fn evict(&self, runtime: &R, segment: &SealedSegment) -> io::Result<()> {
        let source = self.open(runtime, segment, OpenMode::Read).await?;
        let is_there = match &source {
            SegmentSource::File(_) => false,
            SegmentSource::Stored(stored) => stored.has_tail(),
        };
        if !is_there {
            write_tail(runtime, segment, &source).await?;
        }
        if matches!(source, SegmentSource::File(_)) {
            match runtime.remove_file(&segment.path).await {
                Ok(()) => self.reads.note_evicted(segment.live.file_len),
                // Another shard that reads it was faster.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.close(segment);
        Ok(())
    }

    /// Opens a segment for the caller alone, for upkeep.
    ///
    /// # Errors
    /// As for [`SegmentFiles::get`].
    pub(crate) async fn open(
        &self,
        runtime: &R,
        segment: &SealedSegment,
        mode: OpenMode,
    ) -> io::Result<SegmentSource<R>> {
        self.open_for(Purpose::Upkeep, runtime, segment, mode).await
    }

    async fn open_for(
        &self,
        purpose: Purpose,
        runtime: &R,
        segment: &SealedSegment,
        mode: OpenMode,
    ) -> io::Result<SegmentSource<R>> {
        let reads = Rc::clone(&self.reads);
        match (runtime.open(&segment.path, mode).await, &self.store) {
            (Ok(file), _) => {
                let reads = (purpose == Purpose::Query).then_some(reads);
                Ok(SegmentSource::File(LocalFile { file: Rc::new(file), reads }))
            }
            (Err(error), Some(store)) if error.kind() == io::ErrorKind::NotFound => {
                let reads = (reads, purpose);
                let stored = Box::pin(StoredSegment::open(runtime, store, segment, reads)).await;
                Ok(SegmentSource::Stored(Rc::new(stored)))
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Reads a part of a segment that tells by itself whether it is damaged. If it is and came from a
    /// tail, it is read once more, and the tail is checked.
    ///
    /// # Errors
    /// The part cannot be read, or does not check.
    pub(super) async fn read_part<T>(
        &self,
        runtime: &R,
        segment: &SealedSegment,
        range: Range<u64>,
        parse: impl Fn(Vec<u8>) -> Result<T, SegmentError>,
    ) -> Result<T, DirectoryError> {
        loop {
            let source = self.get(runtime, segment).await?;
            let len = (range.end - range.start) as usize;
            let (result, bytes) = source.read_exact_at(Vec::new(), range.start, len).await;
            result?;
            match parse(bytes) {
                Ok(part) => return Ok(part),
                Err(error) if !self.suspect(segment) => return Err(error.into()),
                Err(_) => {}
            }
        }
    }

    /// Notes that a part of a segment does not match its checksum. True if it may have come from a
    /// damaged tail: whoever reads next checks all of the tail.
    pub(crate) fn suspect(&self, segment: &SealedSegment) -> bool {
        let mut state = self.state.borrow_mut();
        let Some(open) = state.open.get(&segment.live.name) else { return false };
        let has_tail = match &open.source {
            SegmentSource::File(_) => false,
            SegmentSource::Stored(stored) => stored.has_tail(),
        };
        if !has_tail || !segment.local.suspect_tail() {
            return false;
        }
        state.close(segment.live.name);
        true
    }

    /// Closes what is open of a segment whose file or tail was removed or put in place. Other cores
    /// do the same when they read the segment, or open another one. Who reads on keeps what it has.
    pub(crate) fn close(&self, segment: &SealedSegment) {
        segment.local.note_change();
        self.state.borrow_mut().close(segment.live.name);
    }

    /// Closes the files of segments that are not held any more, or were evicted: a removed file takes
    /// space as long as it is open.
    pub(crate) fn close_unused(&self) {
        let State { open, order } = &mut *self.state.borrow_mut();
        order.retain(|name| {
            let is_used = open
                .get(name)
                .is_some_and(|open| open.local.upgrade().is_some_and(|local| open.counts(&local)));
            if !is_used {
                open.remove(name);
            }
            is_used
        });
    }
}

impl<R: Runtime> State<R> {
    fn close(&mut self, name: SegmentName) {
        if self.open.remove(&name).is_some() {
            self.order.retain(|other| *other != name);
        }
    }
}
