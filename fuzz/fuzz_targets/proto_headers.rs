//! Values of the headers of a push: media types, content codings, tenants.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::proto::headers(data));
