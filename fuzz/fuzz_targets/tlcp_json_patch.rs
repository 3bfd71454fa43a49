//! Two documents: a patch from the first produces the second, and invalid patches never panic.

#![no_main]

use weir_tlcp::diff::DiffFormat;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_tlcp::fuzz::json_patch(data);
    weir_tlcp::fuzz::diffs(data, &[DiffFormat::JsonPatch, DiffFormat::TlcpDiff], true);
});
