//! HTTP requests: never panics, and chunks of any size yield the same requests.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_net::http1::fuzz::read(data));
