//! All errors of the crate: of configurations (operator), item names (client) and extraction
//! (record).

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use weir_formats::avro::AvroError;
use weir_formats::error::{ExpressionError, PathFailure};
use weir_formats::json::JsonError;
use weir_formats::protobuf::ProtobufError;

use crate::evaluator::Evaluator;
use crate::record_part::RecordPart;
use crate::schema::{FrameError, JsonMismatch, SchemaId};

/// Configuration error with its location.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{at}: {text}")]
pub struct ConfigError {
    /// File, line and connection.
    pub at: Location,
    /// Cause with the parameter, its value and the remedy.
    pub text: String,
    /// Name of the wrong parameter as written, without white space around it.
    pub(crate) parameter: Option<String>,
}

/// Location in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// File name as given by the caller.
    pub file: String,
    /// Line number from 1, if known.
    pub line: Option<u32>,
    /// Name of the connection (data provider), if the location is inside one.
    pub connection: Option<String>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(connection) = &self.connection {
            write!(f, ": connection \"{connection}\"")?;
        }
        Ok(())
    }
}

/// Text of a configuration error, to which the caller adds the location.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub(crate) struct Problem(pub(crate) String);

impl Problem {
    pub(crate) fn missing_part(what: &str, remedy: &str) -> Self {
        Self(format!("missing {what}; {remedy}"))
    }

    pub(crate) fn missing_parameter(name: &str, remedy: &str) -> Self {
        Self(format!("missing required parameter [{name}]; {remedy}"))
    }

    /// Returns the problem that `value` is not `expected`. The caller masks a secret `value`.
    pub(crate) fn bad_value(name: &str, value: &str, expected: &str) -> Self {
        Self(format!(
            "specify a valid value for parameter [{name}]: \"{value}\" is not {expected}"
        ))
    }
}

/// Error in an item template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum TemplateError {
    #[error("invalid template expression; write PREFIX-#{{NAME=EXPRESSION,...}}")]
    Invalid,
    #[error("no duplicated keys are allowed")]
    DuplicateParameter,
    #[error(transparent)]
    Expression(#[from] ExpressionError),
}

/// Error in an item name given by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ItemNameError {
    /// Neither `PREFIX` nor `PREFIX-[NAME=VALUE,...]`.
    #[error("Invalid Item")]
    Invalid,
    /// A parameter name occurs twice.
    #[error("No duplicated keys are allowed")]
    DuplicateParameter,
}

/// Failure to extract a template parameter or field from a record.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot extract {target} by [{expression}]: {reason}")]
pub struct ExtractionError {
    /// Template parameter or field.
    pub target: ExtractionTarget,
    /// Expression.
    pub expression: Arc<str>,
    /// Cause.
    pub reason: ExtractionReason,
}

/// Purpose of an extraction.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExtractionTarget {
    /// A parameter of an item template.
    #[error("parameter \"{parameter}\" of item template \"{template}\"")]
    Template {
        /// Template name.
        template: Arc<str>,
        /// Parameter name.
        parameter: Arc<str>,
    },
    /// A field.
    #[error("field \"{0}\"")]
    Field(Arc<str>),
}

/// Cause of an extraction failure, in the words of the connector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExtractionReason {
    /// A step of the path that does not exist, or a value that is not a scalar.
    #[error(transparent)]
    Path(#[from] PathFailure),
    /// Null as one of several template parameters.
    #[error("null cannot be a value of a template with more than one parameter")]
    NullParameter,
    /// Extracted values of one record that exceed 4 GiB.
    #[error("the extracted values exceed 4 GiB")]
    TooLarge,
    /// A schema that has not been looked up yet.
    #[error("schema {0} has not been looked up")]
    SchemaPending(SchemaId),
    /// Key or value that is not of its type.
    #[error(transparent)]
    Payload(Box<PayloadError>),
}

impl From<PayloadError> for ExtractionReason {
    fn from(error: PayloadError) -> Self {
        Self::Payload(Box::new(error))
    }
}

impl ExtractionReason {
    /// Returns `true` if `fields.skip.failed.mapping.enable` does not cover the failure.
    pub(crate) fn is_fatal(&self) -> bool {
        matches!(self, Self::Payload(_) | Self::TooLarge)
    }
}

impl ExtractionError {
    /// Returns `true` if the key or value is not of the configured type; `false` if a part of it is
    /// missing.
    pub fn is_deserialization(&self) -> bool {
        self.reason.is_deserialization()
    }
}

impl ExtractionReason {
    /// Returns `true` if the key or value is not of the configured type, or its schema is unknown.
    pub(crate) fn is_deserialization(&self) -> bool {
        matches!(self, Self::Payload(_) | Self::SchemaPending(_))
    }
}

/// Key or value that is not of its type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the {part} is not {evaluator}: {problem}")]
pub struct PayloadError {
    pub(crate) part: RecordPart,
    pub(crate) evaluator: Evaluator,
    pub(crate) problem: PayloadProblem,
}

/// Reason why bytes are not of a type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum PayloadProblem {
    #[error("{0} bytes instead of {1}")]
    Length(usize, usize),
    #[error("byte {0} is neither 0 nor 1")]
    NotBoolean(u8),
    #[error("not the text of a UUID")]
    NotUuid,
    #[error(transparent)]
    Json(#[from] JsonError),
    #[error(transparent)]
    Avro(#[from] AvroError),
    #[error(transparent)]
    Protobuf(#[from] ProtobufError),
    #[error(transparent)]
    Mismatch(#[from] JsonMismatch),
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The application did not load the schema file of the configuration.
    #[error("its schema file was not loaded")]
    SchemaNotLoaded,
    #[error("schema {id} cannot be used: {reason}")]
    Schema { id: SchemaId, reason: Arc<str> },
}
