//! Segments: whole files, directories whose checksums match, and single columns.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::segment::segment(data));
