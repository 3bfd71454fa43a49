//! Lists of ACLs: what is accepted keeps its meaning when it is written and read again.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| weir_identity::fuzz::acls(data));
