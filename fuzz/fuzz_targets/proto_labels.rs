//! Label strings and encoded label sets: labels that were read must print and encode back.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::proto::labels(data));
