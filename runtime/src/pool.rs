//! Reuse of I/O buffers on one core.
//!
//! Guarantees: a taken buffer is empty and at least as large as asked; the pool never keeps more
//! than its ceiling, however much is given to it. What can go wrong: a taken buffer may never come
//! back, and a buffer that is given back may have been allocated on another core (a batch travels
//! through the mesh and its buffer stays with the receiver). The allocator has to be good at
//! freeing memory of another core; the pool only sees `Vec`s.

use std::cell::RefCell;
use std::rc::Rc;

/// Smallest size class, 1 KiB: below it reuse costs more than allocation.
const MIN_CLASS_BITS: u32 = 10;
/// Number of size classes; the largest holds buffers from 1 GiB on.
const CLASS_COUNT: usize = 21;

/// A core's stock of empty buffers, in size classes of powers of two. Clones
/// share one stock. Stays on its core.
#[derive(Clone)]
pub struct BufferPool {
    stock: Rc<RefCell<Stock>>,
}

struct Stock {
    max_kept_bytes: usize,
    kept_bytes: usize,
    reused_count: u64,
    allocated_count: u64,
    /// Class `n` holds buffers whose capacity is in `1 KiB << n .. 1 KiB << (n + 1)`.
    classes: [Vec<Vec<u8>>; CLASS_COUNT],
}

impl BufferPool {
    /// A pool that keeps buffers of at most `max_kept_bytes` capacity in sum.
    pub fn new(max_kept_bytes: usize) -> BufferPool {
        BufferPool {
            stock: Rc::new(RefCell::new(Stock {
                max_kept_bytes,
                kept_bytes: 0,
                reused_count: 0,
                allocated_count: 0,
                classes: [const { Vec::new() }; CLASS_COUNT],
            })),
        }
    }

    /// An empty buffer with a capacity of at least `min_capacity_bytes`. A fresh
    /// one gets the next power of two, so that it fits its class when it returns.
    pub fn take(&self, min_capacity_bytes: usize) -> Vec<u8> {
        if let Some(buffer) = self.take_kept(min_capacity_bytes) {
            return buffer;
        }
        self.stock.borrow_mut().allocated_count += 1;
        let rounded_bytes = min_capacity_bytes
            .max(1 << MIN_CLASS_BITS)
            .checked_next_power_of_two()
            .unwrap_or(min_capacity_bytes);
        Vec::with_capacity(rounded_bytes)
    }

    /// [`BufferPool::take`] from the stock only.
    pub fn take_kept(&self, min_capacity_bytes: usize) -> Option<Vec<u8>> {
        let mut stock = self.stock.borrow_mut();
        let first_class = class_that_holds(min_capacity_bytes);
        // One class up is looked at too: twice the room is better than a page
        // fault for each page, four times is a waste.
        for class in first_class..CLASS_COUNT.min(first_class + 2) {
            if let Some(buffer) = stock.classes[class].pop() {
                stock.kept_bytes -= buffer.capacity();
                if buffer.capacity() >= min_capacity_bytes {
                    stock.reused_count += 1;
                    return Some(buffer);
                }
                // Only the open-ended last class can hold one that is too small.
            }
        }
        None
    }

    /// Takes a buffer back, from this core or any other. Its content is
    /// forgotten; it is freed instead if the pool is full or it is tiny.
    pub fn give(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut stock = self.stock.borrow_mut();
        let room_bytes = stock.max_kept_bytes - stock.kept_bytes;
        if buffer.capacity() < 1 << MIN_CLASS_BITS || buffer.capacity() > room_bytes {
            return;
        }
        stock.kept_bytes += buffer.capacity();
        stock.classes[class_of(buffer.capacity())].push(buffer);
    }

    /// Capacity of all kept buffers in sum.
    pub fn kept_bytes(&self) -> usize {
        self.stock.borrow().kept_bytes
    }

    /// The number of buffers that were taken from the stock.
    pub fn reused_count(&self) -> u64 {
        self.stock.borrow().reused_count
    }

    /// The number of buffers that were allocated.
    pub fn allocated_count(&self) -> u64 {
        self.stock.borrow().allocated_count
    }
}

/// The class that a buffer of `capacity_bytes` (1 KiB or more) belongs to.
fn class_of(capacity_bytes: usize) -> usize {
    ((capacity_bytes.ilog2() - MIN_CLASS_BITS) as usize).min(CLASS_COUNT - 1)
}

/// The lowest class of which every buffer holds `wanted_bytes` (except the last
/// class, which is open-ended).
fn class_that_holds(wanted_bytes: usize) -> usize {
    let last_byte = wanted_bytes.max(1 << MIN_CLASS_BITS) - 1;
    ((last_byte.ilog2() + 1 - MIN_CLASS_BITS) as usize).min(CLASS_COUNT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taken_buffers_are_empty_and_large_enough() {
        let pool = BufferPool::new(1 << 20);
        for min_bytes in [0, 1, 1023, 1024, 1025, 4096, 5000, 65_536, 65_537] {
            for _ in 0..2 {
                let mut buffer = pool.take(min_bytes);
                assert!(buffer.is_empty());
                assert!(buffer.capacity() >= min_bytes, "asked {min_bytes}");
                buffer.extend_from_slice(&[7; 100]);
                pool.give(buffer);
            }
        }
        assert!(pool.reused_count() >= 9);
    }

    #[test]
    fn buffers_of_odd_capacity_serve_only_what_they_hold() {
        let pool = BufferPool::new(1 << 20);
        pool.give(Vec::with_capacity(3000));
        assert!(pool.take(2500).capacity() >= 2500);
        assert_eq!(pool.take_kept(2500), None);
        assert_eq!(pool.reused_count(), 0);
        assert_eq!(pool.take_kept(2048).map(|buffer| buffer.capacity()), Some(3000));
        assert_eq!((pool.reused_count(), pool.kept_bytes()), (1, 0));
    }

    #[test]
    fn the_ceiling_holds() {
        let pool = BufferPool::new(10_000);
        for capacity_bytes in [4096, 4096, 4096, 100, 1024, 1024] {
            pool.give(Vec::with_capacity(capacity_bytes));
            assert!(pool.kept_bytes() <= 10_000);
        }
        assert_eq!(pool.kept_bytes(), 4096 + 4096 + 1024);
        pool.give(Vec::with_capacity(1 << 22));
        assert_eq!(pool.kept_bytes(), 4096 + 4096 + 1024);
    }

    #[test]
    fn every_size_has_a_class_that_fits() {
        for bits in 0..40 {
            for wanted_bytes in [(1usize << bits) - 1, 1 << bits, (1 << bits) + 1] {
                let class = class_that_holds(wanted_bytes);
                assert!(class == CLASS_COUNT - 1 || 1024 << class >= wanted_bytes);
                if wanted_bytes >= 1024 {
                    assert!(class_of(wanted_bytes) <= class);
                }
            }
        }
    }
}
