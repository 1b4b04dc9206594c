//! Entries on their way between servers: what is read can be written and read again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::proto::transfer(data));
