//! Memory of batches that were stored, for the batches to come.
//!
//! A push makes a batch for each shard, and the shard is done with it as soon as it is in
//! the log. Without this the allocator would give that memory back to the system in each
//! pause and get it again page by page, cleared; and a batch that grows would be copied
//! each time it doubles. The front that makes batches and the shard that is done with
//! some run on the same thread, so what lies here is of the thread.
//!
//! Guarantees: a thread keeps at most [`KEPT_MAX_BYTES`] for batches and a sixteenth of
//! that for columns.

use std::cell::RefCell;

/// Bytes that wait on a core.
const KEPT_MAX_BYTES: usize = 4 << 20;

/// Pieces of memory that nobody uses.
struct Pool {
    free: Vec<Vec<u8>>,
    held_bytes: usize,
    max_bytes: usize,
}

impl Pool {
    const fn new(max_bytes: usize) -> Pool {
        Pool { free: Vec::new(), held_bytes: 0, max_bytes }
    }

    /// What was given last, empty, or a vector without memory.
    fn take(&mut self) -> Vec<u8> {
        let taken = self.free.pop().unwrap_or_default();
        self.held_bytes -= taken.capacity();
        taken
    }

    fn give(&mut self, mut memory: Vec<u8>) {
        let capacity_bytes = memory.capacity();
        if capacity_bytes > 0 && self.held_bytes + capacity_bytes <= self.max_bytes {
            memory.clear();
            self.held_bytes += capacity_bytes;
            self.free.push(memory);
        }
    }
}

thread_local! {
    static BATCHES: RefCell<Pool> = const { RefCell::new(Pool::new(KEPT_MAX_BYTES)) };
    static COLUMNS: RefCell<Pool> = const { RefCell::new(Pool::new(KEPT_MAX_BYTES / 16)) };
}

/// Memory for a batch, empty.
pub(super) fn take_batch() -> Vec<u8> {
    BATCHES.with_borrow_mut(Pool::take)
}

/// Takes the memory of a batch that is done with.
pub(super) fn give_batch(batch: Vec<u8>) {
    BATCHES.with_borrow_mut(|pool| pool.give(batch));
}

/// Memory for a column of a section, empty.
pub(super) fn take_column() -> Vec<u8> {
    COLUMNS.with_borrow_mut(Pool::take)
}

/// Takes the memory of a column that is done with.
pub(super) fn give_column(column: Vec<u8>) {
    COLUMNS.with_borrow_mut(|pool| pool.give(column));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_comes_back_empty_and_within_bounds() {
        let mut pool = Pool::new(1000);
        assert_eq!(pool.take().capacity(), 0);
        let piece = |bytes| vec![7_u8; bytes];
        let given = piece(600);
        let place = given.as_ptr();
        pool.give(given);
        pool.give(piece(500));
        pool.give(Vec::new());
        assert_eq!((pool.free.len(), pool.held_bytes), (1, 600), "the second is too much");
        pool.give(piece(400));
        assert_eq!(pool.take().capacity(), 400);
        let taken = pool.take();
        assert_eq!((taken.as_ptr(), taken.len(), pool.held_bytes), (place, 0, 0));
    }
}
