//! New entries of tails.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = logsvc_fuzz_bodies::peers::tail_word(data);
});
