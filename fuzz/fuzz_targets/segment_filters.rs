//! Block filters: any bytes as an index and its region, and as lines in which every
//! piece must be found again.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::segment::filters(data));
