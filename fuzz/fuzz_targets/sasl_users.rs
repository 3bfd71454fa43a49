//! Files of users: what is accepted is written and read again.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_sasl::fuzz::users(data));
