//! Any text as adapters.xml; what is accepted runs on any record.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_mapping::fuzz::config(data));
