//! Files of settings: reading never fails but with a text, and what was read can be
//! printed and read again.

#![no_main]
// The server is a program, not a library, so its settings are compiled in here.
#![allow(dead_code, unused_imports, unexpected_cfgs)]

#[path = "../../server/src/config/mod.rs"]
mod config;

libfuzzer_sys::fuzz_target!(|data: &[u8]| config::fuzz::files(data));
