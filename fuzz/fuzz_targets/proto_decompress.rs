//! Decompressors: the size limit must hold.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::proto::decompress(data));
