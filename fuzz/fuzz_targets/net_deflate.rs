//! Compressed WebSocket messages: negotiation never panics, and messages round-trip.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_net::websocket::fuzz::deflate(data));
