//! WebSocket frames in both roles: never panics, and chunks of any size yield the same events.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_net::websocket::fuzz::read(data));
