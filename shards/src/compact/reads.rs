//! How a merge reads the file of an input.
//!
//! A draft is read around the page cache, as it was written: nobody else is likely to read it
//! from now on, and what is not cached would be copied into it first. To ask a device for some
//! KiB costs nearly as much as to ask for much, so the small columns of a draft, which stand
//! one behind the other, are read [`WINDOW_BYTES`] at a time. Other segments are read through
//! the page cache, piece by piece.
//!
//! Guarantees: what is given are the bytes of the file at the place that was asked for, all of
//! them or an error. Memory of drafts: three windows for each, and for all that one merge reads
//! [`SPARE_READS`] long reads. What can go wrong is the disk, and a file that is too short.

use std::cell::RefCell;
use std::io;
use std::ops::{Deref, Range};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use logsvc_runtime::{AlignedBuffer, DIRECT_BLOCK_BYTES, File, OpenMode, Runtime};

use crate::segment::ColumnKind;

/// Of a small column of a draft so much is read at once.
const WINDOW_BYTES: usize = 64 << 10;

/// A piece of more than this is read by itself: else much of a window would be what is left of
/// a piece that begins in it, and read again.
const WINDOWED_BYTES: u64 = WINDOW_BYTES as u64 / 4;

/// Memory of so many long reads is used again, as many as a block may have.
const SPARE_READS: usize = 4;

/// But not that of longer ones.
const SPARE_BYTES: usize = 1 << 20;

/// Bytes of a file.
#[derive(Debug)]
pub(super) struct Piece(Memory);

#[derive(Debug)]
enum Memory {
    Own(Vec<u8>),
    /// Within a window or a long read.
    Shared(Arc<AlignedBuffer>, Range<usize>),
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Memory::Own(bytes) => bytes,
            Memory::Shared(memory, range) => &memory[range.clone()],
        }
    }
}

impl Piece {
    /// No bytes.
    pub(super) const EMPTY: Piece = Piece(Memory::Own(Vec::new()));

    /// A range of the file, out of what was read from `start` on.
    fn of(memory: &Arc<AlignedBuffer>, start: u64, range: &Range<u64>) -> io::Result<Piece> {
        let within = (range.start - start) as usize..(range.end - start) as usize;
        if within.end > memory.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Piece(Memory::Shared(Arc::clone(memory), within)))
    }

    /// The bytes in memory of their own.
    pub(super) fn into_vec(self) -> Vec<u8> {
        match self.0 {
            Memory::Own(bytes) => bytes,
            Memory::Shared(memory, range) => memory[range].to_vec(),
        }
    }
}

/// Memory of long reads, which serves again when nobody holds a piece of it any more.
#[derive(Debug, Default)]
pub(super) struct SpareReads(RefCell<Vec<Arc<AlignedBuffer>>>);

impl SpareReads {
    fn take(&self) -> AlignedBuffer {
        let mut reads = self.0.borrow_mut();
        let free = reads.iter_mut().position(|memory| Arc::get_mut(memory).is_some());
        let taken = free.and_then(|place| Arc::into_inner(reads.swap_remove(place)));
        taken.unwrap_or_default()
    }

    fn share(&self, memory: AlignedBuffer) -> Arc<AlignedBuffer> {
        let is_kept = memory.capacity() <= SPARE_BYTES;
        let memory = Arc::new(memory);
        let mut reads = self.0.borrow_mut();
        if is_kept && reads.len() < SPARE_READS {
            reads.push(Arc::clone(&memory));
        }
        memory
    }
}

/// The file of an input.
#[derive(Debug)]
pub(super) struct Reads<F> {
    file: F,
    /// There if the page cache is passed by.
    direct: Option<Direct>,
}

#[derive(Debug)]
struct Direct {
    /// One for each kind of column; lines are long, and need none.
    windows: [Window; 4],
    spare: Rc<SpareReads>,
}

#[derive(Debug, Default)]
struct Window {
    /// Where in the file it begins.
    start: u64,
    memory: Arc<AlignedBuffer>,
}

impl Window {
    fn covers(&self, range: &Range<u64>) -> bool {
        self.start <= range.start && range.end <= self.start + self.memory.len() as u64
    }
}

impl<F: File> Reads<F> {
    /// Opens the file of a segment, a draft or not.
    pub(super) async fn open<R: Runtime<File = F>>(
        runtime: &R,
        path: &Path,
        is_draft: bool,
        spare: &Rc<SpareReads>,
    ) -> io::Result<Reads<F>> {
        let mode = if is_draft { OpenMode::ReadDirect } else { OpenMode::Read };
        let file = runtime.open(path, mode).await?;
        let direct =
            is_draft.then(|| Direct { windows: Default::default(), spare: Rc::clone(spare) });
        Ok(Reads { file, direct })
    }

    /// A column of a block.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the file ends before.
    pub(super) async fn column(
        &mut self,
        kind: ColumnKind,
        range: Range<u64>,
    ) -> io::Result<Piece> {
        if range.is_empty() {
            return Ok(Piece::EMPTY);
        }
        let is_small = kind != ColumnKind::Lines && range.end - range.start <= WINDOWED_BYTES;
        match &mut self.direct {
            Some(direct) if is_small => {
                direct.windows[kind as usize].piece(&self.file, range).await
            }
            _ => self.bytes(range).await,
        }
    }

    /// Any bytes of the file.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the file ends before.
    pub(super) async fn bytes(&self, range: Range<u64>) -> io::Result<Piece> {
        let Some(direct) = &self.direct else {
            let len = (range.end - range.start) as usize;
            let (result, bytes) = self.file.read_exact_at(Vec::new(), range.start, len).await;
            return result.map(|()| Piece(Memory::Own(bytes)));
        };
        let start = block_start(range.start);
        let count = ((range.end - start) as usize).next_multiple_of(DIRECT_BLOCK_BYTES);
        let memory = direct.spare.take();
        let (result, memory) = self.file.read_aligned_at(memory, start, count).await;
        let memory = direct.spare.share(memory);
        result?;
        Piece::of(&memory, start, &range)
    }
}

impl Window {
    /// A range of the file of at most [`WINDOWED_BYTES`].
    async fn piece<F: File>(&mut self, file: &F, range: Range<u64>) -> io::Result<Piece> {
        if !self.covers(&range) {
            let memory = Arc::into_inner(std::mem::take(&mut self.memory)).unwrap_or_default();
            let start = block_start(range.start);
            let (result, memory) = file.read_aligned_at(memory, start, WINDOW_BYTES).await;
            result?;
            *self = Window { start, memory: Arc::new(memory) };
        }
        Piece::of(&self.memory, self.start, &range)
    }
}

/// Where the block of a file begins that a place is in.
fn block_start(offset: u64) -> u64 {
    offset - offset % DIRECT_BLOCK_BYTES as u64
}

#[cfg(test)]
mod tests {
    use logsvc_runtime::sim::{DiskOperation, SimRuntime, Simulation};

    use super::*;
    use crate::testing::{Rng, SeedGuard, seeds};

    const PATH: &str = "/segment";

    async fn open(runtime: &SimRuntime, is_draft: bool) -> Reads<impl File> {
        Reads::open(runtime, PATH.as_ref(), is_draft, &Rc::default()).await.unwrap()
    }

    #[test]
    fn pieces_are_what_the_file_has_there() {
        for seed in seeds(20) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let len = rng.between(1, 600_000);
            let content: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            let simulation = Simulation::new(seed);
            simulation.disk().write(PATH, &content);
            simulation.block_on(async move |runtime| {
                let mut draft = open(&runtime, true).await;
                let mut other = open(&runtime, false).await;
                let mut held = Vec::new();
                let mut at = [0; 4];
                for _ in 0..300 {
                    let kind = *rng.pick(&ColumnKind::ALL);
                    // Mostly the next one of its kind, as merges read.
                    let start = if rng.one_in(10) { rng.below(len) } else { at[kind as usize] };
                    let longest = *rng.pick(&[10, 5_000, WINDOWED_BYTES, 100_000]);
                    let end = len.min(start + rng.below(longest + 1));
                    at[kind as usize] = if end == len { 0 } else { end };
                    let piece = draft.column(kind, start..end).await.unwrap();
                    assert!(piece[..] == content[start as usize..end as usize]);
                    let same = other.column(kind, start..end).await.unwrap();
                    assert!(piece[..] == same[..]);
                    // A piece that is held stays what it is.
                    held.push((start as usize..end as usize, piece));
                    if held.len() > 6 {
                        let (range, piece) = held.swap_remove(rng.below(6) as usize);
                        assert!(piece.into_vec() == content[range]);
                    }
                }
            });
        }
    }

    #[test]
    fn a_file_that_is_too_short_says_so() {
        let simulation = Simulation::new(1);
        simulation.disk().write(PATH, &[1; 10_000]);
        simulation.block_on(async |runtime| {
            for is_draft in [false, true] {
                let mut reads = open(&runtime, is_draft).await;
                for kind in ColumnKind::ALL {
                    for range in [9_990..10_001, 10_000..10_001, 20_000..20_010, 0..400_000] {
                        let error = reads.column(kind, range.clone()).await.unwrap_err();
                        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof, "{range:?}");
                    }
                    assert_eq!(reads.column(kind, 9_990..10_000).await.unwrap()[..], [1; 10]);
                    assert!(reads.column(kind, 10_000..10_000).await.unwrap().is_empty());
                }
            }
        });
    }

    #[test]
    fn a_read_that_failed_leaves_nothing_behind() {
        let simulation = Simulation::new(1);
        let disk = simulation.disk().clone();
        disk.write(PATH, &[1; 200_000]);
        simulation.block_on(async move |runtime| {
            let mut reads = open(&runtime, true).await;
            for kind in ColumnKind::ALL {
                for start in [0, 100_000] {
                    disk.fail_next(DiskOperation::Read, PATH, 1);
                    let range = start..start + 20;
                    assert!(reads.column(kind, range.clone()).await.is_err());
                    assert_eq!(reads.column(kind, range).await.unwrap()[..], [1; 20]);
                    // What has no bytes is not read.
                    disk.fail_next(DiskOperation::Read, PATH, 1);
                    assert!(reads.column(kind, 150_000..150_000).await.unwrap().is_empty());
                    disk.clear_faults();
                }
            }
        });
    }

    #[test]
    fn memory_serves_again() {
        let simulation = Simulation::new(1);
        let disk = simulation.disk().clone();
        disk.write(PATH, &[1; 3 << 20]);
        simulation.block_on(async move |runtime| {
            let spare = Rc::new(SpareReads::default());
            let path = PATH.as_ref();
            let reads = Reads::open(&runtime, path, true, &spare).await.unwrap();
            let first = reads.bytes(0..300_000).await.unwrap();
            let second = reads.bytes(300_000..400_000).await.unwrap();
            let memory =
                [first.as_ptr(), second.as_ptr()].map(|start| block_start(start.addr() as u64));
            drop((first, second));
            for _ in 0..10 {
                let again = reads.bytes(500_000..600_000).await.unwrap();
                assert!(memory.contains(&block_start(again.as_ptr().addr() as u64)));
            }
            // A read of extraordinary length is not kept, and no more than a block has.
            drop(reads.bytes(0..2 << 20).await.unwrap());
            let mut held = Vec::new();
            for _ in 0..2 * SPARE_READS {
                held.push(reads.bytes(0..10).await.unwrap());
            }
            let kept = spare.0.borrow();
            assert!(kept.len() <= SPARE_READS);
            assert!(kept.iter().all(|memory| memory.capacity() <= SPARE_BYTES));
        });
    }
}
