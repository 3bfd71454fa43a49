//! Any series of value lists: what is encoded decodes to the same values.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_tlcp::fuzz::update(data));
