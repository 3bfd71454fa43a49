//! Responses of a schema registry: never panics.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_kafka::fuzz::registry_response(data));
