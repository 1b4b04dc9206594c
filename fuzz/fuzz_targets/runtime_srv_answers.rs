//! Answers of name servers.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::runtime::srv_answers(data));
