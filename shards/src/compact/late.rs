//! Finds the streams of a merge that may repeat entries of segments that stay.
//!
//! Guarantees: a stream is left out only if no earlier segment that stays has entries of it at the
//! times of an input that was noted so. What cannot be read counts as if it had such entries, which
//! costs queries time and changes no answer.

use std::sync::Arc;

use ahash::AHashSet;
use logsvc_proto::StreamId;
use logsvc_runtime::Runtime;

use super::MergeJob;
use crate::sealed::{HeldDirectory, SegmentFolder, hasher};

/// Streams that are looked up before others get their turn.
const STREAMS_PER_TURN: usize = 4096;

/// The streams of the inputs of a job, with these directories, that may repeat entries of the
/// segments before them.
pub(super) async fn late_streams<R: Runtime>(
    folder: &SegmentFolder<R>,
    directories: &[Arc<HeldDirectory>],
    job: &MergeJob,
) -> AHashSet<StreamId> {
    let mut late = AHashSet::with_hasher(hasher());
    if job.earlier.is_empty() {
        return late;
    }
    let mut candidates: Vec<(StreamId, (i64, i64))> = Vec::new();
    for (input, directory) in job.inputs.iter().zip(directories) {
        let rows = (0..directory.stream_count()).filter(|&row| input.is_late(row));
        candidates
            .extend(rows.map(|row| (directory.stream_id(row), directory.stream_bounds_ns(row))));
        folder.runtime.yield_now().await;
    }
    if candidates.is_empty() {
        return late;
    }
    for earlier in &job.earlier {
        let Ok(earlier) = folder.directories.get(earlier).await else {
            return candidates.into_iter().map(|(id, _)| id).collect();
        };
        for some in candidates.chunks(STREAMS_PER_TURN) {
            late.extend(some.iter().filter_map(|&(id, (min_ns, max_ns))| {
                let other_ns = earlier.stream_bounds_ns(earlier.find_stream(id)?);
                (other_ns.0 <= max_ns && other_ns.1 >= min_ns).then_some(id)
            }));
            folder.runtime.yield_now().await;
        }
    }
    late
}
