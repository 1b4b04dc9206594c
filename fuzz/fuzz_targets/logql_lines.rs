//! A parser over arbitrary lines: no panic, one shard answers like several, and
//! extracting a few labels finds what extracting all finds.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = logsvc_logql::engine::testing::check_lines_with_one(data);
});
