//! A text as an expression and as an item template: never panics.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_mapping::fuzz::expression(data));
