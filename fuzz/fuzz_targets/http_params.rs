//! Query strings and forms: reading never fails but with a text.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::http::params(data));
