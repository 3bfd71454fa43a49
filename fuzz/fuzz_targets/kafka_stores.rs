//! Key and trust stores: never panics.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_security::fuzz::stores(data));
