//! Bytes as a JSON value: never panics, and both readers accept the same values.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_mapping::fuzz::json(data));
