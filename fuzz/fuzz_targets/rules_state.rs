//! The log of the alerts' state: headers, frames and records that decode must encode back.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::rules::rule_state(data));
