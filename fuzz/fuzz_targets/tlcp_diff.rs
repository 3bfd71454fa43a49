//! Two texts: a diff from the first produces the second, and invalid diffs never panic.

#![no_main]

use weir_tlcp::diff::DiffFormat;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    weir_tlcp::fuzz::tlcp_diff(data);
    weir_tlcp::fuzz::diffs(data, &[DiffFormat::TlcpDiff, DiffFormat::JsonPatch], false);
});
