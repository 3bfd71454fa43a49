//! A stream of Kafka frames in chunks, read as requests and responses: never panics.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_wire::fuzz::frame(data));
