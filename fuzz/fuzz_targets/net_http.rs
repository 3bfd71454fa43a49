//! HTTP requests: no panic, and the same requests however the stream is cut.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_net::http1::fuzz::read(data));
