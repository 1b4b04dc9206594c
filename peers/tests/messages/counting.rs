//! An allocator that counts, per thread, the bytes that are held, and the most that ever were.
//!
//! A test binary that declares this module allocates with it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static HELD_BYTES: Cell<i64> = const { Cell::new(0) };
    static PEAK_BYTES: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

fn note(bytes: i64) {
    let held = HELD_BYTES.get() + bytes;
    HELD_BYTES.set(held);
    PEAK_BYTES.set(PEAK_BYTES.get().max(held));
}

// SAFETY: every call is passed on to the system allocator unchanged; the counters are
// plain thread-local cells that neither allocate nor unwind.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size() as i64);
        // SAFETY: the caller's guarantees are those of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        note(-(layout.size() as i64));
        // SAFETY: the caller's guarantees are those of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The value that `make` returns, the bytes that it holds, and the most bytes held meanwhile.
pub(crate) fn measured<T>(make: impl FnOnce() -> T) -> (T, i64, i64) {
    let before = HELD_BYTES.get();
    PEAK_BYTES.set(before);
    let made = make();
    (made, HELD_BYTES.get() - before, PEAK_BYTES.get() - before)
}
