//! Loads columns of sealed blocks: from the cache of the core, or from the file.
//!
//! Guarantees: a column is loaded at most once per block and scan. A failure is noted in the
//! block, and reaches the run that needs the column.

use std::ops::Range;

use logsvc_logql::engine::Needs;
use logsvc_runtime::{File, Runtime};

use super::ScanEnv;
use crate::scan::aside::{Column, Loaded, OpenBlock, columns_of};
use crate::scan::error::ReadError;
use crate::sealed::SealedSegment;
use crate::types::ScanStats;
use logsvc_segment::RunInfo;

/// Reads `len` bytes of a segment.
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
/// the cache as lines. Parts are less work to make, and three times as many of them fit into
/// the cache.
pub(super) fn prefers_parts<R: Runtime>(env: &ScanEnv<R>, opened: &OpenBlock) -> bool {
    opened.has_parts() && !env.cache.holds(opened.key(Column::Lines))
}
