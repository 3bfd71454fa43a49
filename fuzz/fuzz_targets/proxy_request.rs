//! A Kafka request by topic id through the proxy: it waits for names, or closes the connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_proxy::wire::fuzz::request(data));
