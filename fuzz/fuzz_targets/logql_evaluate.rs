//! Queries over arbitrary lines: no panic, and one shard answers like several.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = logsvc_logql::engine::testing::check_query(data);
});
