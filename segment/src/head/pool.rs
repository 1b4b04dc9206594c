//! A pool of empty head blocks: the memory of sealed blocks becomes new blocks.
//!
//! A shard fills and releases the same amount of memory over and over. Without the pool the
//! allocator would return released memory to the system, and the system would clear each page
//! that is taken again.
//!
//! Guarantees: [`BlockPool::begin_generation`] releases each block that was unused since its
//! last call, so that the pool holds at most the memory of one generation of heads.

use std::sync::Arc;

use super::{BLOCK_TARGET_BYTES, HeadBlock};

/// Room for lines of the smallest blocks, in bytes.
const SMALLEST_BYTES: usize = 512;

/// Sizes of blocks: powers of two from the smallest to [`BLOCK_TARGET_BYTES`].
const SIZES: usize = (BLOCK_TARGET_BYTES / SMALLEST_BYTES).ilog2() as usize + 1;

/// A block is released if its columns besides the lines take more than this.
const OTHER_COLUMNS_MAX_BYTES: usize = BLOCK_TARGET_BYTES;

/// Blocks without entries, by size.
#[derive(Debug)]
pub struct BlockPool {
    free: [Vec<Arc<HeadBlock>>; SIZES],
    /// For each size the smallest number of free blocks since the generation began.
    unused: [usize; SIZES],
}

impl Default for BlockPool {
    fn default() -> BlockPool {
        BlockPool { free: std::array::from_fn(|_| Vec::new()), unused: [0; SIZES] }
    }
}

/// The smallest size with room for `line_bytes`; `None` if it is larger than all sizes.
fn size_for(line_bytes: usize) -> Option<usize> {
    let steps = line_bytes.div_ceil(SMALLEST_BYTES).next_power_of_two().ilog2() as usize;
    (steps < SIZES).then_some(steps)
}

fn room_of(size: usize) -> usize {
    SMALLEST_BYTES << size
}

impl BlockPool {
    /// An empty block with room for `needed_bytes` of lines. If `wanted_bytes` is larger, the
    /// block has room for more than half of it and at most all of it, up to the largest size.
    pub(super) fn take(&mut self, needed_bytes: usize, wanted_bytes: usize) -> Arc<HeadBlock> {
        let Some(size) = size_for(needed_bytes) else {
            return Arc::new(HeadBlock::with_capacity(1, needed_bytes));
        };
        let steps = (wanted_bytes.min(BLOCK_TARGET_BYTES) / SMALLEST_BYTES).max(1).ilog2();
        let size = size.max(steps as usize);
        match self.free[size].pop() {
            Some(block) => {
                self.unused[size] = self.unused[size].min(self.free[size].len());
                block
            }
            None => Arc::new(HeadBlock::with_capacity(0, room_of(size))),
        }
    }

    /// A copy of a block with the same capacity.
    pub(super) fn copy(&mut self, block: &HeadBlock) -> Arc<HeadBlock> {
        let mut copy = self.take(block.lines.capacity(), 0);
        let to = Arc::get_mut(&mut copy).expect("blocks of the pool are shared with nobody");
        to.timestamps_ns.extend_from_slice(&block.timestamps_ns);
        to.line_ends.extend_from_slice(&block.line_ends);
        to.lines.extend_from_slice(&block.lines);
        to.metadata.copy_from(&block.metadata);
        (to.min_ns, to.max_ns, to.sorted) = (block.min_ns, block.max_ns, block.sorted);
        copy
    }

    /// Keeps the memory of a block, unless a reader holds the block.
    pub(super) fn give_back(&mut self, mut block: Arc<HeadBlock>) {
        let Some(emptied) = Arc::get_mut(&mut block) else { return };
        let room_bytes = emptied.lines.capacity();
        let Some(size) = size_for(room_bytes).filter(|&size| room_of(size) == room_bytes) else {
            return;
        };
        if emptied.held_bytes() - room_bytes > OTHER_COLUMNS_MAX_BYTES {
            return;
        }
        emptied.clear();
        self.free[size].push(block);
    }

    /// Releases the blocks that were unused since the last call.
    pub fn begin_generation(&mut self) {
        for (free, unused) in self.free.iter_mut().zip(&mut self.unused) {
            free.truncate(free.len() - *unused);
            *unused = free.len();
        }
    }

    /// Releases all blocks, because the shard will need none for a while.
    pub fn release(&mut self) {
        *self = BlockPool::default();
    }

    /// Bytes that the blocks occupy.
    pub fn held_bytes(&self) -> usize {
        self.free.iter().flatten().map(|block| block.held_bytes() + size_of::<HeadBlock>()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::MetadataPairs;

    #[test]
    fn sizes_have_room_and_waste_less_than_half() {
        for bytes in [0, 1, 511, 512, 513, 1024, 4097, BLOCK_TARGET_BYTES] {
            let room = room_of(size_for(bytes).expect("within a block"));
            assert!(room >= bytes && (room == SMALLEST_BYTES || room < 2 * bytes), "{bytes}");
        }
        assert_eq!(size_for(BLOCK_TARGET_BYTES + 1), None);
    }

    #[test]
    fn blocks_come_back_empty_and_only_when_nobody_reads_them() {
        let mut pool = BlockPool::default();
        let mut block = pool.take(600, 0);
        Arc::get_mut(&mut block).expect("new").push(7, b"a line", MetadataPairs::NONE);
        let copy = pool.copy(&block);
        assert_eq!((copy.line(0), copy.time_bounds_ns()), (&b"a line"[..], (7, 7)));
        let reader = Arc::clone(&block);
        pool.give_back(block);
        assert_eq!(pool.held_bytes(), 0, "it is being read");
        let lines = copy.lines().as_ptr();
        pool.give_back(copy);
        let again = pool.take(1024, 0);
        assert!(again.is_empty() && again.lines().is_empty() && again.is_sorted());
        assert_eq!(again.lines().as_ptr(), lines, "the same memory");
        assert_eq!(reader.len(), 1);
    }

    #[test]
    fn what_nobody_wants_for_a_generation_is_released() {
        let mut pool = BlockPool::default();
        let taken: Vec<_> = (0..10).map(|_| pool.take(4096, 0)).collect();
        taken.into_iter().for_each(|block| pool.give_back(block));
        pool.begin_generation();
        let held: Vec<_> = (0..3).map(|_| pool.take(4096, 0)).collect();
        let ten_bytes = pool.held_bytes() / 7 * 10;
        held.into_iter().for_each(|block| pool.give_back(block));
        assert_eq!(pool.held_bytes(), ten_bytes);
        pool.begin_generation();
        assert_eq!(pool.held_bytes(), ten_bytes / 10 * 3);
        pool.begin_generation();
        assert_eq!(pool.held_bytes(), 0);
        let block = pool.take(4096, 0);
        pool.give_back(block);
        pool.release();
        assert_eq!(pool.held_bytes(), 0);
        pool.begin_generation();
    }
}
