//! Bytes as a Protobuf message: Weir and `prost-reflect` find the same values.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_formats_bench::protobuf::compare(data));
