//! Query text: a query that parses must print to text that parses to the same tree.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::logql::parse(data));
