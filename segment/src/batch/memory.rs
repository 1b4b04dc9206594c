//! A pool of memory for batches, one per thread.
//!
//! A push makes a batch for each shard, and the shard drops the batch as soon as it is in the
//! log. Without the pool the allocator would return the memory to the system in each pause,
//! and the system would clear each page that is taken again. A batch that grows would be
//! copied each time that it doubles. Front and shard of a core run on the same thread, so the
//! pool needs no lock.
//!
//! Guarantees: a thread keeps at most [`KEPT_MAX_BYTES`] for batches and a sixteenth of that
//! for columns. If there is more, the memory that was returned first is released. A batch that
//! stays within its expected size is never copied to larger memory.

use std::cell::RefCell;

/// Bytes that a thread keeps for batches.
const KEPT_MAX_BYTES: usize = 4 << 20;

/// New memory is a multiple of this, so that the memory of a batch fits the next batch.
const STEP_BYTES: usize = 64 << 10;

/// Unused pieces of memory, in the order in which they were returned.
struct Pool {
    free: Vec<Vec<u8>>,
    held_bytes: usize,
    max_bytes: usize,
}

impl Pool {
    const fn new(max_bytes: usize) -> Pool {
        Pool { free: Vec::new(), held_bytes: 0, max_bytes }
    }

    /// The last returned memory with room for `expected_bytes`, or else new memory. It is empty.
    fn take(&mut self, expected_bytes: usize) -> Vec<u8> {
        match self.free.iter().rposition(|memory| memory.capacity() >= expected_bytes) {
            Some(place) => {
                let taken = self.free.remove(place);
                self.held_bytes -= taken.capacity();
                taken
            }
            None => Vec::with_capacity(expected_bytes.next_multiple_of(STEP_BYTES)),
        }
    }

    fn give(&mut self, mut memory: Vec<u8>) {
        let capacity_bytes = memory.capacity();
        if capacity_bytes == 0 || capacity_bytes > self.max_bytes {
            return;
        }
        // The oldest pieces are too small for the batches of the moment, or not needed.
        let mut too_many = 0;
        while self.held_bytes + capacity_bytes > self.max_bytes {
            self.held_bytes -= self.free[too_many].capacity();
            too_many += 1;
        }
        self.free.drain(..too_many);
        memory.clear();
        self.held_bytes += capacity_bytes;
        self.free.push(memory);
    }
}

thread_local! {
    static BATCHES: RefCell<Pool> = const { RefCell::new(Pool::new(KEPT_MAX_BYTES)) };
    static COLUMNS: RefCell<Pool> = const { RefCell::new(Pool::new(KEPT_MAX_BYTES / 16)) };
}

/// Memory for a batch of about so many bytes, empty.
pub(super) fn take_batch(expected_bytes: usize) -> Vec<u8> {
    BATCHES.with_borrow_mut(|pool| pool.take(expected_bytes))
}

/// Takes the memory of a batch that is done with.
pub(super) fn give_batch(batch: Vec<u8>) {
    BATCHES.with_borrow_mut(|pool| pool.give(batch));
}

/// Memory for a column of a section, empty.
pub(super) fn take_column() -> Vec<u8> {
    COLUMNS.with_borrow_mut(|pool| pool.take(0))
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
        assert_eq!(pool.take(0).capacity(), 0);
        let piece = |bytes| vec![7_u8; bytes];
        pool.give(piece(300));
        pool.give(piece(1001));
        pool.give(Vec::new());
        assert_eq!((pool.free.len(), pool.held_bytes), (1, 300), "the second is too much");
        let given = piece(600);
        let place = given.as_ptr();
        pool.give(given);
        pool.give(piece(100));
        assert_eq!((pool.free.len(), pool.held_bytes), (3, 1000));
        let taken = pool.take(500);
        assert_eq!((taken.as_ptr(), taken.len(), pool.held_bytes), (place, 0, 400));
        assert_eq!(pool.take(500).capacity(), STEP_BYTES, "nothing has so much room");
        pool.give(piece(650));
        assert_eq!((pool.free.len(), pool.held_bytes), (2, 750), "the oldest had to go");
        assert_eq!(pool.take(0).capacity(), 650, "the last one is the first");
        assert_eq!(pool.take(0).capacity(), 100);
        assert_eq!((pool.free.len(), pool.held_bytes), (0, 0));
    }
}
