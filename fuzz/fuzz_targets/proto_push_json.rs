//! The JSON push in both dialects: both passes must see the same.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::proto::push_json(data));
