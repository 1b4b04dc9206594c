//! Lines, objects and bulk requests: what is read becomes records that can be stored.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::proto::fields(data));
