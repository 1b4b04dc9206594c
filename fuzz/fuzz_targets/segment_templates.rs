//! Lines that are stored as templates: they are read as they were stored.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::segment::lines_as_templates(data));
