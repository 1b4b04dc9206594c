//! Answers streams of a segment from their totals.
//!
//! A query that counts entries, or adds up the bytes of their lines, needs no block of a stream if
//! the same steps see all entries of the stream in the segment. So whole segments cost one look at
//! each stream, and only the ends of a range, and the ends of windows, look at blocks.
//!
//! Guarantees: a stream of a segment is answered whole, or left to its blocks whole. Streams that
//! may repeat entries, and streams that requests for deletion select, are left. Which ones are left
//! goes with the units of the segment, since blocks have streams of both kinds.

use std::sync::Arc;

use logsvc_runtime::Runtime;

use super::frontier::{HeldRow, LeftRows};
use super::run::Scan;
use crate::scan::ScanError;
use crate::scan::aside::Leaf;
use logsvc_segment::{Directory, RowSet};

/// Streams that are answered before others get the core.
const STREAMS_AT_ONCE: usize = 256;

impl<R: Runtime> Scan<'_, R> {
    /// The streams of a segment that their totals do not answer, of those that it holds. `rows` are
    /// those that are left, if others are answered.
    ///
    /// # Errors
    /// The query ends.
    pub(super) async fn without_counted(
        &mut self,
        leaf: &mut Leaf,
        index: u32,
        directory: &Directory,
        (mut held, rows): (Vec<HeldRow>, Option<RowSet>),
    ) -> Result<LeftRows, ScanError> {
        // Of a divided scan several cores look at a segment. They may not know the same of the
        // streams that repeat entries, so they could not agree on what is left.
        if !self.job.share.is_whole() || !leaf.executor.takes_totals() {
            return Ok(LeftRows { held, rows: rows.map(Arc::new) });
        }
        let segment = &self.job.segments[index as usize];
        let (mut kept, mut is_any_answered) = (0, rows.is_some());
        for place in 0..held.len() {
            if place % STREAMS_AT_ONCE == 0 {
                self.pause(leaf).await?;
            }
            let HeldRow { row, stream } = held[place];
            let (min_ns, max_ns) = directory.stream_bounds_ns(row);
            if !leaf.executor.wants(min_ns, max_ns) {
                continue;
            }
            let is_whole = leaf.executor.sees_alike(min_ns, max_ns)
                && !segment.is_late(row)
                && self.known.streams.deletions(stream).is_none();
            if is_whole && leaf.is_answered_by_totals(&directory.stream_totals(row), stream) {
                is_any_answered = true;
                continue;
            }
            held[kept] = held[place];
            kept += 1;
        }
        held.truncate(kept);
        let mut rows = None;
        if is_any_answered && kept > 0 {
            let left: RowSet = held.iter().map(|held| held.row..held.row + 1).collect();
            if !leaf.executor.hold(left.held_bytes()) {
                leaf.check()?;
            }
            rows = Some(Arc::new(left));
        }
        Ok(LeftRows { held, rows })
    }
}
