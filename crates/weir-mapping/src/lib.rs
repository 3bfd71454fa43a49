//! Connector parameters, item templates and the extraction language: maps a Kafka record to its
//! items and field values.
//!
//! The crate has no side effects. It opens no files, reads neither environment nor clock, starts no
//! threads and does not log. Findings for the operator are returned as [`Note`]s.

mod command;
mod config;
mod dynamic_fields;
mod error;
mod evaluator;
mod failure_kind;
mod field_set;
mod field_values;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod headers;
mod item_name;
mod java_regex;
mod mapping;
mod payload;
mod record_filter;
mod record_part;
mod record_view;
mod schema;
mod selector;
mod template;
#[cfg(test)]
mod tests;
mod text;
mod topic_sample;
mod wildcard;

pub use command::{COMMAND_FIELD, CommandEvent, CommandMode, KEY_FIELD, RowCommand};
pub use config::{
    ConfigReport, ConfigSource, ConnectionConfig, ConsumeFrom, ErrorStrategy, Note, OrderStrategy,
    Parameter, ParameterOutcome, ParameterStatus, ParseOptions, RegistryConfig, RegistryLogin,
    RejectedConnection, SchemaFile, Severity, SnapshotConfig, SnapshotMode, Threads, nearest,
};
pub use dynamic_fields::{DynamicField, DynamicFieldError};
pub use error::{
    ConfigError, ExtractionError, ExtractionReason, ExtractionTarget, ItemNameError, Location,
    PayloadError,
};
pub use failure_kind::FailureKind;
pub use field_set::FieldSet;
pub use field_values::{FieldValue, FieldValues, FrozenValues};
pub use item_name::CanonicalItem;
pub use mapping::documents::DecodedDocument;
pub use mapping::explain::{Explanation, Extracted, NoItem, SourceOutcome};
pub use mapping::{ItemNames, Mapping};
pub use record_filter::{FilterValues, RecordFilterError};
pub use record_view::RecordView;
pub use schema::{
    FrameError, KnownSchemas, Schema, SchemaError, SchemaId, SchemaKind, SchemaReference,
    SchemaState, SchemaTable,
};
pub use text::{split_fields, split_items};
pub use topic_sample::{KeyForm, SampledField, TopicSample, ValueForm};
pub use weir_formats::error::PathFailure;
