//! Any bytes as a request, over WebSocket and HTTP: no panic, and one answer line per refusal.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_tlcp::fuzz::request(data));
