//! Loads columns of sealed blocks: from the cache of the core, or from the file.
//!
//! Guarantees: a column is loaded at most once per block and scan. A failure is noted in the
//! block, and reaches the run that needs the column.

use std::ops::Range;

use futures_util::stream::{self, StreamExt};
use logsvc_logql::engine::Needs;
use logsvc_runtime::{File, Runtime};

use super::ScanEnv;
use crate::scan::aside::{Column, Loaded, OpenBlock, columns_of};
use crate::scan::error::ReadError;
use crate::sealed::SealedSegment;
use crate::types::ScanStats;
use logsvc_segment::RunInfo;

/// Small reads of a scan that are on their way at the same time.
const READS_AT_ONCE: usize = 16;

/// Reads a range of a segment.
pub(super) async fn read<R: Runtime>(
    env: &ScanEnv<R>,
    segment: &SealedSegment,
    range: Range<u64>,
    stats: &mut ScanStats,
) -> Result<Vec<u8>, ReadError> {
    let begun = env.runtime.now();
    let offset = range.start;
    let refused = |error| ReadError::Io { offset, error };
    let file = env.directories.files.get(&env.runtime, segment).await.map_err(refused)?;
    let len = (range.end - range.start) as usize;
    let (result, bytes) = file.read_exact_at(Vec::new(), range.start, len).await;
    stats.read_time_ns += env.runtime.now().since(begun).as_nanos() as u64;
    result.map_err(refused)?;
    stats.read_bytes += len as u64;
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
    let refused = |offset, error| ReadError::Io { offset, error };
    let file = env.directories.files.get(&env.runtime, segment).await;
    let file = &file.map_err(|error| refused(ranges.first().map_or(0, |r| r.start), error))?;
    let pieces = ranges.iter().map(|range| async move {
        let len = (range.end - range.start) as usize;
        let (result, bytes) = file.read_exact_at(Vec::new(), range.start, len).await;
        result.map(|()| bytes).map_err(|error| refused(range.start, error))
    });
    // All of them end here, also if one fails.
    let pieces: Vec<_> = stream::iter(pieces).buffered(READS_AT_ONCE).collect().await;
    stats.read_time_ns += env.runtime.now().since(begun).as_nanos() as u64;
    let pieces: Vec<Vec<u8>> = pieces.into_iter().collect::<Result<_, _>>()?;
    stats.read_bytes += pieces.iter().map(|piece| piece.len() as u64).sum::<u64>();
    Ok(pieces)
}

/// Loads a column, unless that was done; returns its length in bytes when it is decoded, if
/// it was not loaded before.
pub(super) async fn load<R: Runtime>(
    env: &ScanEnv<R>,
    segment: &SealedSegment,
    opened: &mut OpenBlock,
    column: Column,
    stats: &mut ScanStats,
) -> usize {
    if !opened.is_unloaded(column) {
        return 0;
    }
    let (range, decoded_len) = opened.place(column);
    stats.cache_lookups += 1;
    let key = opened.key(column);
    let other_key = opened.other_key(column).filter(|_| !env.cache.holds(key));
    let key = other_key.filter(|&other| env.cache.holds(other)).unwrap_or(key);
    let cached = env.cache.get(key).filter(|cached| opened.takes(cached));
    let loaded = if let Some(cached) = cached {
        stats.cache_hits += 1;
        stats.cached_bytes += cached.held_bytes() as u64;
        Loaded::Decoded(cached)
    } else {
        match read(env, segment, range, stats).await {
            Ok(bytes) => Loaded::Stored(bytes),
            Err(error) => Loaded::Failed(error),
        }
    };
    opened.supply(column, loaded);
    decoded_len
}

/// Loads the columns that a run needs; returns the length in bytes of the columns that were not
/// loaded yet.
pub(super) async fn load_run<R: Runtime>(
    env: &ScanEnv<R>,
    segment: &SealedSegment,
    opened: &mut OpenBlock,
    run: &RunInfo,
    needs: Needs,
    stats: &mut ScanStats,
) -> usize {
    let mut bytes = 0;
    for column in columns_of(run, needs) {
        bytes += load(env, segment, opened, column, stats).await;
    }
    bytes
}

/// Loads the columns that were missed.
pub(super) async fn load_missing<R: Runtime>(
    env: &ScanEnv<R>,
    segment: &SealedSegment,
    opened: &mut OpenBlock,
    stats: &mut ScanStats,
) {
    for column in Column::ALL {
        if opened.is_missed(column) {
            load(env, segment, opened, column, stats).await;
        }
    }
}

/// Whether a block's lines are stored in parts, and better looked at so: unless they are in
/// the cache as lines. Parts are less work to make, and twice as many of them fit into the
/// cache.
pub(super) fn prefers_parts<R: Runtime>(env: &ScanEnv<R>, opened: &OpenBlock) -> bool {
    opened.has_parts() && !env.cache.holds(opened.key(Column::Lines))
}
