//! WebSocket frames: sizes are bounded and rules are kept.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::http::websocket_frames(data));
