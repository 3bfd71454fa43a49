//! Diffs between two values of a field: JSON Patch (`^P`) and TLCP-diff (`^T`).
//!
//! Contains both codecs and the rules for their use by a server; see [`FieldDiffs`]. The cost of a
//! diff is counted in compared bytes, so that a [`DiffBudget`] needs no clock.

mod budget;
mod document;
mod json_apply;
mod json_patch;
mod matches;
mod number;
mod rules;
mod tlcp_diff;

pub use budget::DiffBudget;
pub use json_apply::apply_json_patch;
pub use json_patch::push_json_patch;
pub use rules::{DiffFormat, DiffOptions, DiffOrder, DiffOutcome, FieldDiffs};
pub use tlcp_diff::{apply_tlcp_diff, push_tlcp_diff};
