//! Requests and ids of clients without an SDK: accepted within the limits, or rejected.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_fanout::fuzz::events(data));
