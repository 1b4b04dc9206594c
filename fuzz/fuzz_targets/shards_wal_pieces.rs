//! Pieces of log files in a bucket: what decodes must encode back.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::shards::wal_pieces(data));
