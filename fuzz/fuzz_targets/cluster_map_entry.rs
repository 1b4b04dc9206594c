//! Maps of a cluster.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::cluster::map_entry(data));
