//! Templates of alerts over any data: no panic, bounded steps, output and needs.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = logsvc_fuzz_bodies::logql::alert_template(data);
});
