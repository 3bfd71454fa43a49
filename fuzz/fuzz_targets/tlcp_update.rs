//! A series of value lists: encoding and decoding preserve the values.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_tlcp::fuzz::update(data));
