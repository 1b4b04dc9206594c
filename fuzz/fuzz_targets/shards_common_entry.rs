//! The record of requests for deletion: requests that decode must encode back.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::shards::common_entry(data));
