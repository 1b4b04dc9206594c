//! A segment of a sample log: samples that decode must encode back.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::rules::sample_segment(data));
