//! Compressed WebSocket messages: agreeing on it, and what goes in comes out.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_net::websocket::fuzz::deflate(data));
