//! Messages of membership.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::membership::messages(data));
