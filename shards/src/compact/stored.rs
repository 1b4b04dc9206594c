//! Reads the columns of a segment that is in a bucket, those of many blocks at once.
//!
//! A request costs money and time, and a segment has the columns of one kind of many blocks side by
//! side. So each kind has a window: the columns of this kind of the blocks that come next.
//!
//! Guarantees: blocks that are asked for in order are read once, in requests of up to
//! [`LINES_BYTES`]. A block before a window is read by itself, and the window stays. Memory: the
//! windows, at most [`WINDOWS_MAX_BYTES`] for all inputs of a job together, or the columns of one
//! block of each. It fails as the reads of [`StoredSegment`] do.

use std::io;
use std::ops::Range;
use std::rc::Rc;

use futures_util::future::try_join_all;
use logsvc_runtime::Runtime;

use crate::sealed::{REQUEST_MAX_BYTES, StoredSegment};
use logsvc_segment::{ColumnKind, Directory};

/// Bytes of lines that are read at once.
const LINES_BYTES: u64 = REQUEST_MAX_BYTES;

/// The same of another kind of column.
const SMALL_BYTES: u64 = 2 << 20;

/// The same of the stream table.
const LABELS_BYTES: u64 = 1 << 20;

/// The windows of an input that has all the room it can use.
const INPUT_BYTES: u64 = LINES_BYTES + 3 * SMALL_BYTES + LABELS_BYTES;

/// The windows of all inputs of a job.
const WINDOWS_MAX_BYTES: u64 = 64 << 20;

/// Columns, or chunks, with so many bytes between them are in one window.
const GAP_BYTES: u64 = 64 << 10;

/// See the module.
pub(super) struct StoredAhead<R: Runtime> {
    stored: Rc<StoredSegment<R>>,
    /// By the kinds of columns.
    columns: [Window; ColumnKind::ALL.len()],
    labels: Window,
}

/// Bytes of a segment that were read.
struct Window {
    start: u64,
    bytes: Vec<u8>,
    max_bytes: u64,
}

impl Window {
    fn new(max_bytes: u64) -> Window {
        Window { start: 0, bytes: Vec::new(), max_bytes }
    }

    fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        let start = usize::try_from(range.start.checked_sub(self.start)?).ok()?;
        let len = usize::try_from(range.end - range.start).ok()?;
        self.bytes.get(start..start.checked_add(len)?)
    }

    /// What to read so that a range is there: with ranges behind it, unless it stands before what
    /// is there.
    fn plan(&self, range: Range<u64>, behind: impl Iterator<Item = Range<u64>>) -> Range<u64> {
        if !self.bytes.is_empty() && range.start < self.start {
            return range;
        }
        let mut all = range;
        for next in behind.filter(|next| !next.is_empty()) {
            let is_near = next.start >= all.end && next.start - all.end <= GAP_BYTES;
            if !is_near || next.end - all.start > self.max_bytes {
                break;
            }
            all.end = next.end;
        }
        all
    }

    /// Takes bytes over that were read, unless they stand before what is there; gives those of the
    /// range that was asked for.
    fn take(&mut self, start: u64, bytes: Vec<u8>, range: &Range<u64>) -> Vec<u8> {
        if !self.bytes.is_empty() && start < self.start {
            return bytes;
        }
        (self.start, self.bytes) = (start, bytes);
        self.get(range).unwrap_or_default().to_vec()
    }
}

impl<R: Runtime> StoredAhead<R> {
    /// Nothing was read yet.
    pub(super) fn new(stored: Rc<StoredSegment<R>>) -> StoredAhead<R> {
        let columns = ColumnKind::ALL.map(|kind| match kind {
            ColumnKind::Lines => Window::new(LINES_BYTES),
            _ => Window::new(SMALL_BYTES),
        });
        StoredAhead { stored, columns, labels: Window::new(LABELS_BYTES) }
    }

    /// Divides the room for windows among the inputs of a job.
    pub(super) fn share_among(&mut self, inputs: usize) {
        let share_bytes = (WINDOWS_MAX_BYTES / inputs.max(1) as u64).min(INPUT_BYTES);
        for window in self.columns.iter_mut().chain([&mut self.labels]) {
            window.max_bytes = window.max_bytes * share_bytes / INPUT_BYTES;
        }
    }

    /// Some columns of a block; the others are empty.
    pub(super) async fn columns(
        &mut self,
        directory: &Directory,
        block: u32,
        kinds: &[ColumnKind],
    ) -> io::Result<[Vec<u8>; ColumnKind::ALL.len()]> {
        let range_of = |kind, block| directory.block(block).column(kind).range();
        let mut columns = [const { Vec::new() }; ColumnKind::ALL.len()];
        let mut missing = Vec::new();
        for &kind in kinds {
            let (range, window) = (range_of(kind, block), &self.columns[kind as usize]);
            match window.get(&range) {
                _ if range.is_empty() => {}
                Some(bytes) => columns[kind as usize] = bytes.to_vec(),
                None => {
                    let behind = (block + 1..directory.block_count()).map(|b| range_of(kind, b));
                    missing.push((kind, window.plan(range, behind)));
                }
            }
        }
        let stored = &self.stored;
        let reads = missing.iter().map(|(_, range)| read(stored, range.clone()));
        let reads = try_join_all(reads).await?;
        for ((kind, planned), bytes) in missing.into_iter().zip(reads) {
            let window = &mut self.columns[kind as usize];
            columns[kind as usize] = window.take(planned.start, bytes, &range_of(kind, block));
        }
        Ok(columns)
    }

    /// A chunk of the stream table.
    pub(super) async fn labels(
        &mut self,
        directory: &Directory,
        chunk: u32,
    ) -> io::Result<Vec<u8>> {
        let range_of = |chunk| directory.label_chunk(chunk).place.range();
        let range = range_of(chunk);
        if let Some(bytes) = self.labels.get(&range) {
            return Ok(bytes.to_vec());
        }
        let behind = (chunk + 1..directory.label_chunk_count()).map(range_of);
        let planned = self.labels.plan(range.clone(), behind);
        let bytes = read(&self.stored, planned.clone()).await?;
        Ok(self.labels.take(planned.start, bytes, &range))
    }

    /// A range, without a change to the windows.
    pub(super) async fn read_alone(&self, range: Range<u64>) -> io::Result<Vec<u8>> {
        read(&self.stored, range).await
    }
}

async fn read<R: Runtime>(stored: &StoredSegment<R>, range: Range<u64>) -> io::Result<Vec<u8>> {
    let (result, bytes) = stored.read(Vec::new(), range).await;
    result.map(|()| bytes)
}
