//! A Kafka fetch response through the proxy's filters: filtered again, it loses no partition.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_filters::fuzz::fetch(data));
