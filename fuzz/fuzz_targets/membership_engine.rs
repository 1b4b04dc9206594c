//! A node that is sent arbitrary bodies of messages.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::membership::engine_bodies(data));
