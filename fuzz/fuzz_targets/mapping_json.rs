//! Any bytes as a JSON value: no panic, and both ways of reading agree on what is well-formed.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_mapping::fuzz::json(data));
