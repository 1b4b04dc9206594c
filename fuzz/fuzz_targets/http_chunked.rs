#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logsvc_http::fuzz::chunked(data));
