//! Names, headers and records of the write-ahead log: values that decode must encode back.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::shards::wal_records(data));
