//! Bytes as a request over WebSocket and HTTP: never panics, and each error is one line.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_tlcp::fuzz::request(data));
