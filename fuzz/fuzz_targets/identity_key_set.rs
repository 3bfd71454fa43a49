//! Key sets, discovery documents and PEM files.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_identity::fuzz::key_set(data));
