//! The Journal Export Format: its entries do not depend on where a body is cut.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::proto::journal(data));
