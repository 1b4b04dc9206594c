//! The YAML of rule groups: what is read must read back when it is written.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::rules::group_yaml(data));
