//! Leaves of plans: no panic, neither while they are read nor while they run.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = logsvc_fuzz_bodies::logql::leaf_plan(data);
});
