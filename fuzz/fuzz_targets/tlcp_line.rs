//! Bytes as lines of a server: never panics, and an invalid update changes nothing.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_tlcp::fuzz::line(data));
