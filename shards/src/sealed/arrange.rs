//! Puts the entries of a stream in the order of time for a segment.
//!
//! Guarantees: entries come by timestamp, and entries of equal timestamps in the order of
//! arrival. In the common case, blocks whose entries came in order, nothing is copied.

use std::ops::Range;
use std::sync::Arc;

use crate::types::TimeRange;
use logsvc_segment::head::{BLOCK_TARGET_BYTES, BLOCK_TARGET_ENTRIES, HeadBlock};

/// A piece of a stream in time order.
#[derive(Debug)]
pub(super) struct Piece {
    /// The block that holds it.
    pub(super) block: Arc<HeadBlock>,
    /// Which of its entries.
    pub(super) entries: Range<usize>,
}

impl Piece {
    /// Bytes of its lines.
    pub(super) fn line_bytes(&self) -> u64 {
        let end =
            |count: usize| count.checked_sub(1).map_or(0, |last| self.block.line_ends()[last]);
        u64::from(end(self.entries.end) - end(self.entries.start))
    }
}

/// The entries of `blocks` with these times, in pieces that follow one another.
pub(super) fn arrange(blocks: &[Arc<HeadBlock>], range: TimeRange) -> Vec<Piece> {
    let blocks: Vec<&Arc<HeadBlock>> =
        blocks.iter().filter(|block| range.overlaps(block.time_bounds_ns())).collect();
    if in_order(&blocks) {
        let piece = |block: &&Arc<HeadBlock>| {
            let times = block.timestamps_ns();
            let start = times.partition_point(|&ts| ts < range.start_ns);
            let end = times.partition_point(|&ts| ts < range.end_ns);
            Piece { block: Arc::clone(block), entries: start..end }
        };
        return blocks.iter().map(piece).filter(|piece| !piece.entries.is_empty()).collect();
    }
    let mut positions: Vec<(i64, u32, u32)> = Vec::new();
    for (number, block) in blocks.iter().enumerate() {
        for (index, &ts) in block.timestamps_ns().iter().enumerate() {
            if ts >= range.start_ns && ts < range.end_ns {
                positions.push((ts, number as u32, index as u32));
            }
        }
    }
    // Block and index are the order of arrival.
    positions.sort_unstable();
    let mut pieces = Vec::new();
    let mut next = HeadBlock::default();
    for (ts, number, index) in positions {
        let block = &blocks[number as usize];
        let line = block.line(index as usize);
        let full = next.lines().len() + line.len() > BLOCK_TARGET_BYTES
            || next.len() >= BLOCK_TARGET_ENTRIES;
        if full && !next.is_empty() {
            pieces.push(whole(std::mem::take(&mut next)));
        }
        next.push(ts, line, block.metadata(index as usize));
    }
    if !next.is_empty() {
        pieces.push(whole(next));
    }
    pieces
}

fn whole(block: HeadBlock) -> Piece {
    let entries = 0..block.len();
    Piece { block: Arc::new(block), entries }
}

fn in_order(blocks: &[&Arc<HeadBlock>]) -> bool {
    let sorted = blocks.iter().all(|block| block.is_sorted());
    let follows =
        |pair: &[&Arc<HeadBlock>]| pair[0].time_bounds_ns().1 <= pair[1].time_bounds_ns().0;
    sorted && blocks.windows(2).all(follows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use logsvc_segment::batch::MetadataPairs;
    use logsvc_testkit::{Rng, SeedGuard, seeds};

    fn block(entries: &[(i64, String)]) -> Arc<HeadBlock> {
        let mut block = HeadBlock::default();
        for (ts, line) in entries {
            block.push(*ts, line.as_bytes(), MetadataPairs::NONE);
        }
        Arc::new(block)
    }

    fn arranged(blocks: &[Arc<HeadBlock>], range: TimeRange) -> Vec<(i64, String)> {
        let mut found = Vec::new();
        for piece in arrange(blocks, range) {
            for index in piece.entries.clone() {
                let line = String::from_utf8(piece.block.line(index).to_vec()).unwrap();
                found.push((piece.block.timestamps_ns()[index], line));
            }
        }
        found
    }

    #[test]
    fn any_arrival_gives_the_stable_order_by_time() {
        for seed in seeds(200) {
            let _guard = SeedGuard(seed);
            let mut rng = Rng::new(seed);
            let spread = 1 + rng.below(20) as i64;
            let mut blocks = Vec::new();
            let mut all = Vec::new();
            for number in 0..rng.below(5) {
                let mut entries = Vec::new();
                for index in 0..1 + rng.below(20) {
                    let ts = (number as i64) * 5 + rng.below(spread as u64) as i64;
                    entries.push((ts, format!("{number}-{index}")));
                }
                if rng.one_in(2) {
                    entries.sort_by_key(|(ts, _)| *ts);
                }
                all.extend(entries.clone());
                blocks.push(block(&entries));
            }
            let start_ns = rng.below(10) as i64;
            let range = TimeRange { start_ns, end_ns: start_ns + rng.below(30) as i64 };
            all.sort_by_key(|(ts, _)| *ts);
            all.retain(|(ts, _)| *ts >= range.start_ns && *ts < range.end_ns);
            assert_eq!(arranged(&blocks, range), all);
        }
    }
}
