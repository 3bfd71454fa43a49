//! Connector parameters, item templates and the extraction language: maps a Kafka record to its
//! items and field values.
//!
//! The crate has no side effects. It opens no files, reads neither environment nor clock, starts no
//! threads and does not log. Findings for the operator are returned as [`Note`]s.

mod command;
mod config;
mod error;
mod evaluator;
mod expression;
mod field_set;
mod field_values;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod item_name;
mod json;
mod mapping;
mod number;
mod payload;
mod record_part;
mod record_view;
mod selector;
mod selector_value;
mod template;
#[cfg(test)]
mod tests;
mod text;

pub use command::{COMMAND_FIELD, CommandEvent, CommandMode, KEY_FIELD, RowCommand};
pub use config::{
    ConfigReport, ConfigSource, ConnectionConfig, ConsumeFrom, ErrorStrategy, Note, OrderStrategy,
    Parameter, ParameterOutcome, ParameterStatus, ParseOptions, RejectedConnection, Severity,
    Threads,
};
pub use error::{
    ConfigError, ExtractionError, ExtractionReason, ExtractionTarget, ItemNameError, Location,
    PayloadError,
};
pub use field_set::FieldSet;
pub use field_values::{FieldValue, FieldValues, FrozenValues};
pub use item_name::CanonicalItem;
pub use mapping::explain::{Explanation, Extracted, NoItem, SourceOutcome};
pub use mapping::{ItemNames, Mapping};
pub use record_view::RecordView;
pub use text::{split_fields, split_items};
