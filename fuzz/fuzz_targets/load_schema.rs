//! Bytes as a schema of generated records: never panics, and the records can be read.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_load::fuzz::record_schema(data));
