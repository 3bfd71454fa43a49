//! A response of a broker through the proxy: it keeps its frame, or closes the connection.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_proxy::wire::fuzz::response(data));
