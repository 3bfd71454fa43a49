//! A text as `adapters.xml`: accepted configurations can map any record.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_mapping::fuzz::config(data));
