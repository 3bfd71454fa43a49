//! Records that name schemas of a registry: never panics, and ingest knows which must wait.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_mapping::fuzz::schema_frames(data));
