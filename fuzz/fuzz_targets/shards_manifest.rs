//! Names, headers, edits and files of the manifest: values that decode must encode back.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::shards::manifest(data));
