//! The WebSocket frame reader, both roles: no panic, and the same events however the stream is cut.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_net::websocket::fuzz::read(data));
