//! JAAS lines, properties files and Kafka settings: never panics.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_security::fuzz::properties(data));
