//! Random Avro schemas and records: Weir and `apache-avro` find the same values.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_formats_bench::avro::compare(data));
