//! The records of a Kafka fetch response: never panics.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_wire::fuzz::records(data));
