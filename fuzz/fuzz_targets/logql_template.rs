//! Templates over any labels and lines: no panic, bounded steps and output.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = logsvc_logql::engine::testing::check_template(data);
});
