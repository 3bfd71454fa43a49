//! Any two documents: a patch between them leads from one to the other, and nothing upsets its reader.

#![no_main]

use weir_tlcp::diff::DiffFormat;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_tlcp::fuzz::json_patch(data);
    weir_tlcp::fuzz::diffs(data, &[DiffFormat::JsonPatch, DiffFormat::TlcpDiff], true);
});
