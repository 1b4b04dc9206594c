//! A push body behind its headers: decompression, both formats, and discovered metadata.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::proto::push_body(data));
