//! Label indexes: any bytes as a root, as pages, and as pages of a good root.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::segment::label_index(data));
