//! Loads columns of sealed blocks: from the cache of the core, from the file, or from a bucket.
//!
//! Columns are asked for first ([`want`]), block by block, and read in waves ([`load_wanted`]): a
//! cold disk has several reads to work on.
//!
//! Guarantees: a column is loaded at most once per block and scan. A failure is noted in the
//! block, and reaches the run that needs the column.

use std::io;
use std::ops::Range;
use std::rc::Rc;

use futures_util::stream::{self, StreamExt};
use logsvc_logql::engine::Needs;
use logsvc_runtime::{Monotonic, Runtime};

use super::ScanEnv;
use super::stored::{self, Asked};
use crate::scan::aside::{Column, Loaded, OpenBlock, columns_of};
use crate::scan::error::ReadError;
use crate::sealed::{SealedSegment, SegmentSource, StoredSegment};
use crate::types::ScanStats;
use logsvc_segment::RunInfo;

/// Small reads of a scan that are on their way at the same time.
pub(super) const READS_AT_ONCE: usize = 16;

/// Reads a range of a segment.
pub(super) async fn read<R: Runtime>(
    env: &ScanEnv<R>,
    segment: &SealedSegment,
    range: Range<u64>,
    stats: &mut ScanStats,
) -> Result<Vec<u8>, ReadError> {
    let (begun, asked) = (env.runtime.now(), Asked::default());
    let read = read_range(env, segment, range, &asked).await;
    note_time(env, begun, &asked, stats);
    stats.read_bytes += read.as_ref().map_or(0, |bytes| bytes.len() as u64);
    read
}

/// Adds what a wave of reads took.
fn note_time<R: Runtime>(env: &ScanEnv<R>, begun: Monotonic, asked: &Asked, stats: &mut ScanStats) {
    let time_ns = env.runtime.now().since(begun).as_nanos() as u64;
    stats.read_time_ns += time_ns;
    asked.add_to(stats, time_ns);
}

async fn read_range<R: Runtime>(
    env: &ScanEnv<R>,
    segment: &SealedSegment,
    range: Range<u64>,
    asked: &Asked,
) -> Result<Vec<u8>, ReadError> {
    let offset = range.start;
    let refused = |error| ReadError::Io { offset, error };
    let source = env.directories.files.get(&env.runtime, segment).await.map_err(refused)?;
    if let SegmentSource::Stored(stored) = &source {
        asked.note(stored, &range);
    }
    let len = (range.end - range.start) as usize;
    let (result, bytes) = source.read_exact_at(Vec::new(), range.start, len).await;
    result.map_err(refused)?;
    Ok(bytes)
}

/// Reads small pieces of a segment, several at a time.
///
/// # Errors
/// The first piece that cannot be read.
pub(super) async fn read_all<R: Runtime>(
    env: &ScanEnv<R>,
    segment: &SealedSegment,
    ranges: &[Range<u64>],
    stats: &mut ScanStats,
) -> Result<Vec<Vec<u8>>, ReadError> {
    let begun = env.runtime.now();
    let source = env.directories.files.get(&env.runtime, segment).await;
    stats.read_time_ns += env.runtime.now().since(begun).as_nanos() as u64;
    let offset = ranges.first().map_or(0, |range| range.start);
    let source = source.map_err(|error| ReadError::Io { offset, error })?;
    read_pieces(env, &source, ranges, stats).await
}

/// Reads small pieces, several at a time.
///
/// # Errors
/// The first piece that cannot be read.
pub(super) async fn read_pieces<R: Runtime>(
    env: &ScanEnv<R>,
    source: &SegmentSource<R>,
    ranges: &[Range<u64>],
    stats: &mut ScanStats,
) -> Result<Vec<Vec<u8>>, ReadError> {
    let begun = env.runtime.now();
    let refused = |offset, error| ReadError::Io { offset, error };
    let pieces = match source {
        SegmentSource::Stored(stored) if ranges.iter().any(|range| stored.asks_for(range)) => {
            let asked = Asked::default();
            let pieces = Box::pin(stored::read_pieces(env, stored, ranges, &asked)).await;
            note_time(env, begun, &asked, stats);
            pieces
        }
        _ => {
            let pieces = ranges.iter().map(|range| async move {
                let len = (range.end - range.start) as usize;
                let (result, bytes) = source.read_exact_at(Vec::new(), range.start, len).await;
                result.map(|()| bytes).map_err(|error| refused(range.start, error))
            });
            // All of them end here, also if one fails.
            let pieces: Vec<_> = stream::iter(pieces).buffered(READS_AT_ONCE).collect().await;
            stats.read_time_ns += env.runtime.now().since(begun).as_nanos() as u64;
            pieces.into_iter().collect::<Result<Vec<Vec<u8>>, _>>()
        }
    }?;
    stats.read_bytes += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
    Ok(pieces)
}

/// Takes a column from the cache, or notes that [`load_wanted`] is to read it, unless that was
/// done; returns its length in bytes when it is decoded, if it was not asked for before.
pub(super) fn want<R: Runtime>(
    env: &ScanEnv<R>,
    opened: &mut OpenBlock,
    column: Column,
    stats: &mut ScanStats,
) -> usize {
    if !opened.is_unloaded(column) {
        return 0;
    }
    stats.cache_lookups += 1;
    let key = opened.key(column);
    let other_key = opened.other_key(column).filter(|_| !env.cache.holds(key));
    let key = other_key.filter(|&other| env.cache.holds(other)).unwrap_or(key);
    match env.cache.get(key).filter(|cached| opened.takes(cached)) {
        Some(cached) => {
            stats.cache_hits += 1;
            stats.cached_bytes += cached.held_bytes() as u64;
            opened.supply(column, Loaded::Decoded(cached));
        }
        None => opened.want(column),
    }
    opened.place(column).1
}

/// The same for the columns that a run needs; returns the length in bytes of the columns that were
/// not asked for before.
pub(super) fn want_run<R: Runtime>(
    env: &ScanEnv<R>,
    opened: &mut OpenBlock,
    run: &RunInfo,
    needs: Needs,
    stats: &mut ScanStats,
) -> usize {
    columns_of(run, needs).map(|column| want(env, opened, column, stats)).sum()
}

/// The same for the columns that were missed.
pub(super) fn want_missing<R: Runtime>(
    env: &ScanEnv<R>,
    opened: &mut OpenBlock,
    stats: &mut ScanStats,
) {
    for column in Column::ALL {
        if opened.is_missed(column) {
            want(env, opened, column, stats);
        }
    }
}

/// A column that is to be read.
struct Piece<'a> {
    segment: &'a SealedSegment,
    range: Range<u64>,
    /// The place of its block among those of the wave.
    block: usize,
    column: Column,
}

/// Small pieces with so few bytes between them are one read.
const GAP_BYTES: u64 = 8 << 10;

/// Pieces are small of which two fit into so many bytes.
const SPAN_BYTES: u64 = 64 << 10;

/// Reads the columns that blocks want, in one wave: several reads are on their way at once, and
/// small columns that stand side by side are one read.
pub(super) async fn load_wanted<'a, R: Runtime>(
    env: &ScanEnv<R>,
    blocks: impl Iterator<Item = (&'a SealedSegment, &'a mut OpenBlock)>,
    stats: &mut ScanStats,
) {
    let mut pieces = Vec::new();
    let mut opened = Vec::new();
    for (block, (segment, of_block)) in blocks.enumerate() {
        for column in of_block.wanted() {
            let range = of_block.place(column).0;
            pieces.push(Piece { segment, range, block, column });
        }
        opened.push(of_block);
    }
    if pieces.is_empty() {
        return;
    }
    let (begun, asked) = (env.runtime.now(), Asked::default());
    pieces.sort_unstable_by_key(|piece| (piece.segment.live.name, piece.range.start));
    let spans = match env.directories.files.has_store() {
        false => local_spans(&pieces).map(Span::local).collect(),
        true => Box::pin(spans_by_source(env, &pieces)).await,
    };
    let mut reads =
        stream::iter(spans).map(|span| read_span(env, span, &asked)).buffered(READS_AT_ONCE);
    while let Some(read) = reads.next().await {
        for (piece, loaded) in read {
            if let Loaded::Stored(bytes) = &loaded {
                stats.read_bytes += bytes.len() as u64;
            }
            opened[piece.block].supply(piece.column, loaded);
        }
    }
    note_time(env, begun, &asked, stats);
}

/// Pieces that are one read.
struct Span<'a, 'b, R: Runtime> {
    pieces: &'b [Piece<'a>],
    /// Where they are, if they are in a bucket.
    stored: Option<Rc<StoredSegment<R>>>,
}

impl<'a, 'b, R: Runtime> Span<'a, 'b, R> {
    fn local(pieces: &'b [Piece<'a>]) -> Span<'a, 'b, R> {
        Span { pieces, stored: None }
    }
}

/// The reads of pieces of files.
fn local_spans<'a, 'b>(pieces: &'b [Piece<'a>]) -> impl Iterator<Item = &'b [Piece<'a>]> {
    pieces.chunk_by(is_one_span_with).flat_map(split)
}

/// The reads of pieces that are in files or in a bucket.
async fn spans_by_source<'a, 'b, R: Runtime>(
    env: &ScanEnv<R>,
    pieces: &'b [Piece<'a>],
) -> Vec<Span<'a, 'b, R>> {
    let of_one_segment =
        |piece: &Piece<'_>, next: &Piece<'_>| piece.segment.live.name == next.segment.live.name;
    let open = |pieces: &'b [Piece<'a>]| async move {
        match env.directories.files.get(&env.runtime, pieces[0].segment).await {
            Ok(SegmentSource::Stored(stored)) => (pieces, Some(stored)),
            // The reads tell of a failure.
            Ok(SegmentSource::File(_)) | Err(_) => (pieces, None),
        }
    };
    let segments = pieces.chunk_by(of_one_segment).map(open);
    let mut segments = stream::iter(segments).buffered(READS_AT_ONCE);
    let mut spans = Vec::new();
    while let Some((pieces, stored)) = segments.next().await {
        match stored {
            None => spans.extend(local_spans(pieces).map(Span::local)),
            Some(stored) => {
                let requests = stored::requests(pieces, |piece| piece.range.clone());
                let span = |pieces| Span { pieces, stored: Some(Rc::clone(&stored)) };
                spans.extend(requests.map(span));
            }
        }
    }
    spans
}

/// Whether a piece and the next one may be one read.
fn is_one_span_with(piece: &Piece<'_>, next: &Piece<'_>) -> bool {
    let is_small = |piece: &Piece<'_>| piece.range.end - piece.range.start <= SPAN_BYTES / 2;
    piece.segment.live.name == next.segment.live.name
        && next.range.start <= piece.range.end + GAP_BYTES
        && is_small(piece)
        && is_small(next)
}

/// Divides pieces that stand side by side into spans of at most [`SPAN_BYTES`], unless one piece
/// has more.
fn split<'a, 'b>(mut pieces: &'b [Piece<'a>]) -> impl Iterator<Item = &'b [Piece<'a>]> {
    std::iter::from_fn(move || {
        let start = pieces.first()?.range.start;
        let fits = |piece: &&Piece<'_>| piece.range.end <= start + SPAN_BYTES;
        let count = pieces.iter().take_while(fits).count().max(1);
        let (span, rest) = pieces.split_at(count);
        pieces = rest;
        Some(span)
    })
}

/// Reads the pieces of a span.
async fn read_span<'a, 'b, R: Runtime>(
    env: &ScanEnv<R>,
    Span { pieces, stored }: Span<'a, 'b, R>,
    asked: &Asked,
) -> Vec<(&'b Piece<'a>, Loaded)> {
    if let Some(stored) = stored {
        let ranges = pieces.iter().map(|piece| &piece.range);
        return match Box::pin(stored::read_together(env, &stored, ranges, asked)).await {
            Ok(read) => pieces.iter().zip(read.into_iter().map(Loaded::Stored)).collect(),
            Err(error) => {
                let failed = |piece: &'b Piece<'a>| {
                    let error = io::Error::new(error.kind(), error.to_string());
                    let offset = piece.range.start;
                    (piece, Loaded::Failed(ReadError::Io { offset, error }))
                };
                pieces.iter().map(failed).collect()
            }
        };
    }
    let mut loaded = Vec::with_capacity(pieces.len());
    if let [first, .., last] = pieces {
        let end = pieces.iter().map(|piece| piece.range.end).fold(last.range.end, u64::max);
        let span = first.range.start..end;
        if let Ok(bytes) = read_range(env, first.segment, span.clone(), asked).await {
            for piece in pieces {
                let of = |at: u64| (at - span.start) as usize;
                let own = bytes[of(piece.range.start)..of(piece.range.end)].to_vec();
                loaded.push((piece, Loaded::Stored(own)));
            }
            return loaded;
        }
        // Each of them is read, or fails, by itself.
    }
    for piece in pieces {
        let read = read_range(env, piece.segment, piece.range.clone(), asked).await;
        loaded.push((piece, read.map_or_else(Loaded::Failed, Loaded::Stored)));
    }
    loaded
}

/// Whether a block's lines are stored in parts, and better looked at so: unless they are in
/// the cache as lines. Parts are less work to make, and twice as many of them fit into the
/// cache.
pub(super) fn prefers_parts<R: Runtime>(env: &ScanEnv<R>, opened: &OpenBlock) -> bool {
    opened.has_parts() && !env.cache.holds(opened.key(Column::Lines))
}
