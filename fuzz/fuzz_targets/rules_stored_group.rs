//! A file with a stored rule group: what is read must read back.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::rules::stored_group(data));
