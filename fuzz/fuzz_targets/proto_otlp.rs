//! OTLP logs as protobuf and as JSON: accepted logs become labels and entries that can be stored.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::proto::otlp(data));
