//! Answers, as the client reads them: what they are does not depend on the cuts between reads.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::http::answers(data));
