//! Tokens and claims: what is accepted has everything that the rules require.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_identity::fuzz::token(data));
