//! PROXY headers: never panics, chunks of any size yield the same header, and encoding keeps it.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_net::proxy_header::fuzz::read(data));
