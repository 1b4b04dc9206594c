//! Batches: entries that decode must come out of a head and of a builder as they were.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::shards::batch_sections(data));
