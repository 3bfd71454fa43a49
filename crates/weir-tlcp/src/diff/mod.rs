//! Differences between two values of a field: JSON Patch (`^P`) and TLCP-diff (`^T`).
//!
//! Both codecs and all rules by which a server may use them; see [`FieldDiffs`]. What a diff costs
//! is counted in bytes read, so that a [`DiffBudget`] needs no clock of its own.

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
pub use rules::{DiffFormat, DiffOrder, DiffOutcome, DiffSettings, FieldDiffs};
pub use tlcp_diff::{apply_tlcp_diff, push_tlcp_diff};
