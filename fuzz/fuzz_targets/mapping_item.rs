//! A text as an item name: the canonical form is stable.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_mapping::fuzz::item(data));
