//! Chunked bodies: what is read does not depend on where the bytes are cut.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::http::chunked(data));
