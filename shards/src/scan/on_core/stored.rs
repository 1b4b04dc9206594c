//! Reads pieces of segments that are in a bucket.
//!
//! A request costs money, and takes as long as reading a few MiB does. So pieces that stand near each
//! other are one request, and several are on their way at once.
//!
//! Guarantees: each piece is asked for once. What stands between pieces is read into memory that is
//! reserved from the budget for queries; without room for it each piece is a request of its own.
//! A failed request fails all of its pieces: the bucket has been asked again and again by then.

use std::cell::Cell;
use std::io;
use std::ops::Range;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use logsvc_runtime::{Reservation, Runtime};

use super::ScanEnv;
use super::load::READS_AT_ONCE;
use crate::scan::error::ReadError;
use crate::sealed::{REQUEST_MAX_BYTES, StoredSegment};
use crate::types::ScanStats;

/// Pieces with so many bytes between them are one request. A request of its own takes a 16th of its
/// time, since 16 are on their way at once: at 30 ms and 90 MB/s these are about 170 KB of reading.
/// A needle has two short columns in each of few blocks, far from each other: with 1 MiB here
/// nearly all bytes of its requests are what stands between.
const GAP_BYTES: u64 = 256 << 10;

/// A part of the budget for queries that is left to others: one in so many bytes.
const LEFT_SHARE: u64 = 4;

/// What a wave of reads has asked of the bucket.
#[derive(Debug, Default)]
pub(super) struct Asked {
    requests: Cell<u64>,
    bytes: Cell<u64>,
}

impl Asked {
    /// Notes that a range was read.
    pub(super) fn note<R: Runtime>(&self, stored: &StoredSegment<R>, range: &Range<u64>) {
        let requests = stored.requests_for(range);
        self.requests.set(self.requests.get() + requests);
        if requests > 0 {
            self.bytes.set(self.bytes.get() + (range.end - range.start));
        }
    }

    /// Adds what was asked within a time to the counters of a scan.
    pub(super) fn add_to(&self, stats: &mut ScanStats, time_ns: u64) {
        if self.requests.get() > 0 {
            stats.store.requests += self.requests.get();
            stats.store.bytes += self.bytes.get();
            stats.store.time_ns += time_ns;
        }
    }
}

/// Divides pieces, which rise by their first bytes, into those of one request each.
pub(super) fn requests<T>(
    mut pieces: &[T],
    range_of: impl Fn(&T) -> Range<u64>,
) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let Range { start, mut end } = range_of(pieces.first()?);
        let mut count = 1;
        for range in pieces[1..].iter().map(&range_of) {
            let all_end = end.max(range.end);
            if range.start > end + GAP_BYTES || all_end - start > REQUEST_MAX_BYTES {
                break;
            }
            end = all_end;
            count += 1;
        }
        let (one, rest) = pieces.split_at(count);
        pieces = rest;
        Some(one)
    })
}

/// Reads pieces as one request, in their order.
///
/// # Errors
/// The bucket refuses.
pub(super) async fn read_together<'b, R: Runtime>(
    env: &ScanEnv<R>,
    stored: &StoredSegment<R>,
    pieces: impl Iterator<Item = &'b Range<u64>> + Clone,
    asked: &Asked,
) -> io::Result<Vec<Vec<u8>>> {
    let start = pieces.clone().map(|piece| piece.start).min().unwrap_or(0);
    let end = pieces.clone().map(|piece| piece.end).max().unwrap_or(0);
    let whole = start..end;
    let is_one = pieces.clone().nth(1).is_none();
    let memory = if is_one { None } else { room_for(env, end - start) };
    if memory.is_none() {
        let alone = pieces.map(|piece| read_alone(stored, piece.clone(), asked));
        return stream::iter(alone).buffered(READS_AT_ONCE).try_collect().await;
    }
    let bytes = read_alone(stored, whole, asked).await?;
    let of = |at: u64| (at - start) as usize;
    Ok(pieces.map(|piece| bytes[of(piece.start)..of(piece.end)].to_vec()).collect())
}

async fn read_alone<R: Runtime>(
    stored: &StoredSegment<R>,
    range: Range<u64>,
    asked: &Asked,
) -> io::Result<Vec<u8>> {
    asked.note(stored, &range);
    let (result, bytes) = stored.read(Vec::new(), range).await;
    result.map(|()| bytes)
}

/// Memory for what a request reads, if there is enough besides.
fn room_for<R: Runtime>(env: &ScanEnv<R>, bytes: u64) -> Option<Reservation> {
    let max_bytes = env.queries.max_bytes();
    let leaves_some = env.queries.used_bytes() + bytes <= max_bytes - max_bytes / LEFT_SHARE;
    if leaves_some { env.queries.try_reserve(bytes) } else { None }
}

/// Reads small pieces of a segment; they come in any order, and are given in that order.
///
/// # Errors
/// The first piece that cannot be read.
pub(super) async fn read_pieces<R: Runtime>(
    env: &ScanEnv<R>,
    stored: &StoredSegment<R>,
    ranges: &[Range<u64>],
    asked: &Asked,
) -> Result<Vec<Vec<u8>>, ReadError> {
    let mut order: Vec<usize> = (0..ranges.len()).collect();
    order.sort_unstable_by_key(|&at| ranges[at].start);
    let spans: Vec<&[usize]> = requests(&order, |&at| ranges[at].clone()).collect();
    let reads = spans.iter().map(|span| async {
        let offset = ranges[span[0]].start;
        let read = read_together(env, stored, span.iter().map(|&at| &ranges[at]), asked).await;
        read.map_err(|error| ReadError::Io { offset, error })
    });
    let mut reads = stream::iter(reads).buffered(READS_AT_ONCE);
    let mut pieces = vec![Vec::new(); ranges.len()];
    let mut spans = spans.iter();
    while let (Some(read), Some(span)) = (reads.next().await, spans.next()) {
        for (&at, piece) in span.iter().zip(read?) {
            pieces[at] = piece;
        }
    }
    Ok(pieces)
}
