//! Connector settings, item templates and the extraction language: which items a Kafka record
//! belongs to and which field values it yields.
//!
//! Pure: text and bytes come in, values come out. Nothing here opens a file, reads the environment
//! or a clock, starts a thread or logs; what the caller should look at is returned as a [`Note`].

mod command;
pub mod config;
mod error;
mod evaluator;
mod expression;
mod field_set;
mod field_values;
#[doc(hidden)]
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
mod text;

pub use command::{COMMAND_FIELD, CommandEvent, CommandMode, KEY_FIELD, RowCommand};
pub use config::{
    AdaptersFile, ConfigReport, ConfigSource, ConnectionConfig, ConsumeFrom, ErrorStrategy, Note,
    OrderStrategy, Parameter, ParameterOutcome, ParameterStatus, ParseOptions, ReferencedFile,
    RefusedConnection, Severity, Threads,
};
pub use error::{
    ConfigError, ExpressionError, ExtractionError, ExtractionReason, ExtractionTarget,
    ItemNameError, Location, PayloadError, PayloadProblem, Problem, TemplateError,
};
pub use evaluator::Evaluator;
pub use expression::{Expression, PathStep, Root};
pub use field_set::FieldSet;
pub use field_values::{FieldValue, FieldValues, FrozenValues};
pub use item_name::CanonicalItem;
pub use json::{JsonError, JsonFault};
pub use mapping::explain::{Explanation, Extracted, Mismatch, NoItem, SourceOutcome};
pub use mapping::{FieldName, ItemNames, Mapping};
pub use record_part::RecordPart;
pub use record_view::RecordView;
pub use template::ItemTemplate;
pub use text::{split_fields, split_items};
