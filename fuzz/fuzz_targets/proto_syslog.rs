//! Syslog: framing does not depend on the cuts between reads, and every message has a line.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::proto::syslog(data));
