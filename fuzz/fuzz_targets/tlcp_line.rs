//! Any bytes as the lines of a server: no panic, and a refused update changes nothing.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_tlcp::fuzz::line(data));
