//! Matchers of look-ups: no panic, neither while they are read nor while they match.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = logsvc_fuzz_bodies::logql::matchers(data);
});
