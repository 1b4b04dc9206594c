//! WebSocket messages in masked frames, with control frames between: cuts change nothing.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| logsvc_fuzz_bodies::http::websocket_messages(data));
