//! Diffs in the model: the gateway sends all formats, and each client accepts other ones.

use proptest::prelude::*;
use weir_tlcp::diff::{DiffFormat, DiffOptions, DiffOrder};
use weir_tlcp::request::Diffs;

/// Returns settings with both formats for values of any length.
pub(super) fn settings() -> DiffOptions {
    DiffOptions {
        order: DiffOrder::of([DiffFormat::JsonPatch, DiffFormat::TlcpDiff]),
        json_patch_min_bytes: 0,
        tlcp_diff_min_bytes: 0,
        ..DiffOptions::default()
    }
}

/// Returns the diffs that a client accepts, and the request parameter; the first client accepts all
/// by default.
pub(super) fn accepted(client: usize) -> (Option<Diffs>, &'static str) {
    let only = |json_patch| Diffs {
        json_patch,
        tlcp_diff: !json_patch,
    };
    match client {
        0 => (None, ""),
        1 => (Some(only(true)), "&LS_supported_diffs=P"),
        _ => (Some(only(false)), "&LS_supported_diffs=T"),
    }
}

/// Generates documents and texts with much in common, so that diffs are sent.
pub(super) fn similar_value() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => (0u8..4, 1usize..3)
            .prop_map(|(n, len)| format!(r#"{{"n":{n},"text":"{}"}}"#, "|".repeat(len * 40))),
        2 => (0u8..4).prop_map(|n| format!("{n}{}", "|".repeat(40))),
    ]
}
