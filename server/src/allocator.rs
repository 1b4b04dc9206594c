//! The allocator, and how long it keeps memory that was freed.
//!
//! mimalloc gives freed pages back to the system after a second. A server that takes a
//! hundred megabytes a second then holds up to a hundred that nothing uses; with a
//! hundredth of that time it holds a quarter less memory for the same CPU time, since what
//! is used all the time is used again sooner than that.
//!
//! `.cargo/config.toml` builds mimalloc without its pages for blocks of 64 to 512 KiB, because a page
//! goes back only when all of its blocks are free, and every thread has pages of its own for every
//! size of blocks. Each such block is a page of its own instead.

use std::ffi::{c_int, c_long};

/// Buffers are often freed by another core than the one that allocated them.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// `mi_option_purge_delay` of `mimalloc.h`, which the bindings do not name.
const PURGE_DELAY: c_int = 15;

const PURGE_DELAY_MS: c_long = 10;

/// Lets freed memory go back to the system soon. Call it before there are other threads.
pub(crate) fn release_early() {
    // SAFETY: the option is a number that the allocator reads when it frees pages; no other
    // thread reads or writes options yet. A number that is no option is ignored.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, PURGE_DELAY_MS) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_is_the_delay() {
        // SAFETY: reads a number; tests that run beside this one do not touch options.
        let delay_ms = || unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) };
        // An environment that sets it would make the test prove nothing.
        if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
            assert_eq!(delay_ms(), 1000, "another option has this number now");
        }
        release_early();
        assert_eq!(delay_ms(), PURGE_DELAY_MS);
    }

    #[test]
    fn buffers_are_pages_of_their_own() {
        // SAFETY: computes a number.
        let held = |bytes| unsafe { libmimalloc_sys::mi_good_size(bytes) };
        // Blocks that share pages come in classes of size, an eighth of a power of two apart.
        assert_eq!(held(40_000), 40 << 10);
        // A build with a CFLAGS of its own does not have the option; every other one must.
        if option_env!("CFLAGS").is_none_or(|flags| flags.contains("MI_ENABLE_LARGE_PAGES=0")) {
            assert_eq!(held(200_000), 200_000_usize.next_multiple_of(4096));
        }
    }
}
