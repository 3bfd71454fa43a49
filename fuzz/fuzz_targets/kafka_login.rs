//! Responses of a broker to a login: never panics, never accepts a server without the password.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_sasl::fuzz::login(data);
});
