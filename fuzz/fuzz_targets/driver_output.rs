//! What drivers of client libraries say: no panic, short texts, and nothing impossible is believed.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_drivers::fuzz::answer(data));
