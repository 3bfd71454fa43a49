//! Lines of remote adapters, and requests to them, read and written again.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_identity::fuzz::ari(data));
