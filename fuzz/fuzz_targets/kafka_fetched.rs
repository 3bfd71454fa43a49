//! The records of a fetched partition as the gateway's lean reader decodes them: never panics.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_kafka::fuzz::fetched(data));
