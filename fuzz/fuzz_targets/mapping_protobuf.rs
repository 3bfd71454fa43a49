//! Bytes as a Protobuf message and as a schema: never panics, and both check modes agree.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_formats::fuzz::protobuf(data));
