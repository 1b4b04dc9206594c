//! Checks the records of streams that have left segments. After a start with another number of
//! shards each shard moves the streams that it owns to segments of its own, and the manifest
//! records which streams a segment has lost.
//!
//! A shard may record that its streams have left a segment that has none of them: so the
//! segment can go. Two records are faults: streams have left a segment that cannot hold them by
//! its name, and streams have left a segment that does not exist.

use std::collections::BTreeMap;
use std::fmt;

use crate::manifest::{ManifestState, SegmentName};
use crate::types::{Part, StreamPartitions, may_share_streams};
use logsvc_segment::Directory;

/// Whose streams have left each segment.
pub(super) fn left_by_segment(manifest: &ManifestState) -> BTreeMap<SegmentName, StreamPartitions> {
    let of_segments = manifest.left.chunk_by(|a, b| a.segment == b.segment);
    let parts = of_segments.map(|of_segment| {
        let parts = of_segment.iter().map(|part| part.part);
        (of_segment[0].segment, parts.collect())
    });
    parts.collect()
}

/// The parts of streams that are recorded to have left a segment and cannot have been in it, in
/// words.
pub(super) fn foreign_parts(
    name: SegmentName,
    left: &StreamPartitions,
) -> impl Iterator<Item = String> {
    let is_stranger = move |part: &Part| !may_share_streams(name.writer(), part.numbers());
    left.iter().filter(is_stranger).map(|part| {
        format!("streams of {part} are said to have left it, which it cannot have held")
    })
}

/// The streams that have left a segment, in numbers. Prints as words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LeftTotals<'l> {
    /// Streams of the segment that have left it.
    pub(super) streams: u32,
    /// Their entries in it.
    pub(super) entries: u64,
    of_streams: u32,
    of_entries: u64,
    parts: &'l StreamPartitions,
}

impl<'l> LeftTotals<'l> {
    pub(super) fn count(directory: &Directory, left: &'l StreamPartitions) -> LeftTotals<'l> {
        let of_streams = directory.stream_count();
        let of_entries = directory.footer().totals.entries;
        let mut totals = LeftTotals { streams: 0, entries: 0, of_streams, of_entries, parts: left };
        for stream in (0..of_streams).filter(|stream| left.contains(directory.stream_id(*stream))) {
            totals.streams += 1;
            let runs = directory.runs_of_stream(stream);
            totals.entries += runs.map(|run| run.entries.len() as u64).sum::<u64>();
        }
        totals
    }
}

impl fmt::Display for LeftTotals<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LeftTotals { streams, entries, of_streams, of_entries, parts } = self;
        write!(
            f,
            "{streams} of {of_streams} streams with {entries} of {of_entries} entries have "
        )?;
        write!(f, "left it: all of")?;
        for (at, part) in parts.iter().enumerate() {
            let comma = if at > 0 { "," } else { "" };
            write!(f, "{comma} {part}")?;
        }
        Ok(())
    }
}
