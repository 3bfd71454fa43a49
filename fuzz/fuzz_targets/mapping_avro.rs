//! Bytes as an Avro schema and a record: never panics, and a fully checked record is readable.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_formats::fuzz::avro(data));
