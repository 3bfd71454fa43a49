//! A Kafka produce request through the proxy's filters: the response to it can be completed.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_filters::fuzz::produce(data));
