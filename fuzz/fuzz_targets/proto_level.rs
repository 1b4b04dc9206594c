//! The level of a line, with the default fields and with others.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::proto::level(data));
