//! Requests of a client that logs in at Weir: never panics, accepts no login without a password.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_sasl::fuzz::server_login(data));
