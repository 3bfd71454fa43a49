//! Output of drivers: never panics, error texts are short, impossible results are rejected.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_drivers::fuzz::response(data));
