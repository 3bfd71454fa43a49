//! All errors of the crate: of configurations (operator), item names (client) and extraction
//! (record).

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::evaluator::Evaluator;
use crate::json::JsonError;
use crate::record_part::RecordPart;

/// Configuration error with its location.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{at}: {problem}")]
pub struct ConfigError {
    /// File, line and connection.
    pub at: Location,
    /// Cause and remedy.
    pub problem: Box<Problem>,
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

/// Cause of a configuration error; each text names the parameter, its value and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file is not well-formed XML.
    #[error("not well-formed XML: {0}")]
    Xml(String),
    /// The file configures the connector's Kafka Connect variant.
    #[error(
        "this is a configuration of the Kafka Connect sink (it has [{key}]), not adapters.xml; \
         weir gateway does not run inside Kafka Connect: write an adapters.xml with \
         item-template.NAME for item.templates, map.TOPIC.to for topic.mappings, field.NAME for \
         record.mappings, and bootstrap.servers"
    )]
    KafkaConnect {
        /// Key that identifies the variant.
        key: String,
    },
    /// The file is a configuration of Weir.
    #[error("this is TOML, not adapters.xml; give it with --config")]
    Toml,
    /// Missing element or attribute.
    #[error("missing {what}; {remedy}")]
    MissingPart {
        /// Element or attribute.
        what: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// Unknown element; only in strict mode.
    #[error("unknown element <{element}> inside <{parent}>; remove it or correct its spelling")]
    UnknownElement {
        /// Element name.
        element: String,
        /// Name of the enclosing element.
        parent: String,
    },
    /// Adapter class other than the connector's; only in strict mode.
    #[error("adapter class \"{class}\" is not the Kafka connector's \"{expected}\"")]
    ForeignClass {
        /// Class in the file.
        class: String,
        /// Class of the connector.
        expected: &'static str,
    },
    /// Two connections with the same name.
    #[error("a second data_provider is named \"{0}\"; give each connection a unique name")]
    DuplicateConnection(String),
    /// Missing mandatory parameter.
    #[error("missing required parameter [{parameter}]; {remedy}")]
    MissingParameter {
        /// Parameter name.
        parameter: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// Several threads with evaluated commands, whose records would lose their order.
    #[error(
        "[fields.evaluate.as.command.enable] = \"true\" needs exactly one consumer thread; \
         remove [record.consume.with.num.threads] or write 1"
    )]
    ThreadsOfCommand,
    /// No parameter with the given pattern.
    #[error("specify at least one parameter [{parameter}]; {remedy}")]
    MissingAny {
        /// Pattern of the parameter name.
        parameter: &'static str,
        /// Remedy.
        remedy: &'static str,
    },
    /// Value that is not of the parameter's type.
    #[error("specify a valid value for parameter [{parameter}]: \"{value}\" is not {expected}")]
    BadValue {
        /// Parameter name.
        parameter: String,
        /// Value as written; secrets are masked.
        value: String,
        /// Expected form.
        expected: String,
    },
    /// Parameter of a pattern without its variable part.
    #[error("specify a valid parameter [{expected}] instead of [{parameter}]")]
    MalformedName {
        /// Parameter name as written.
        parameter: String,
        /// Pattern of the parameter name.
        expected: &'static str,
    },
    /// Topic mapping that refers to an undefined template.
    #[error(
        "no item template [{template}] found, which parameter [{parameter}] refers to; \
         define [item-template.{template}]"
    )]
    UnknownTemplate {
        /// Parameter with the reference.
        parameter: String,
        /// Template name.
        template: String,
    },
    /// Topic mapping with `item-template.` but no name after it.
    #[error(
        "item template reference must be a non-empty string in parameter [{parameter}]; \
         write item-template.NAME"
    )]
    EmptyTemplateReference {
        /// Parameter with the reference.
        parameter: String,
    },
    /// Invalid template.
    #[error(
        "got the following error while evaluating the template [{template}] containing the \
         expression [{expression}]: {reason}"
    )]
    Template {
        /// Template name.
        template: String,
        /// Template text.
        expression: String,
        /// Cause.
        reason: TemplateError,
    },
    /// Field expression that is invalid or does not match its evaluator.
    #[error(
        "got the following error while evaluating the field [{field}] containing the \
         expression [{expression}]: {reason}"
    )]
    Field {
        /// Field name.
        field: String,
        /// Expression text.
        expression: String,
        /// Cause.
        reason: ExpressionError,
    },
    /// Unsupported value that would change results if it were ignored.
    #[error("[{parameter}] = \"{value}\" is not supported by this version; {remedy}")]
    Unsupported {
        /// Parameter name as written.
        parameter: String,
        /// Value.
        value: String,
        /// Remedy.
        remedy: &'static str,
    },
    /// Unknown parameter; only in strict mode.
    #[error("unknown parameter [{parameter}]{}", Suggestion(nearest.as_deref()))]
    UnknownParameter {
        /// Parameter name.
        parameter: String,
        /// Nearest known name, if there is a similar one.
        nearest: Option<String>,
    },
    /// Parameter name of an earlier connector version; only in strict mode.
    #[error("parameter [{parameter}] is not known to connector 1.5; write [{current}]")]
    LegacyName {
        /// Name as written.
        parameter: String,
        /// Current name.
        current: String,
    },
    /// Parameter whose name begins or ends with a blank; only in strict mode.
    #[error(
        "parameter [{parameter}] begins or ends with a blank{}; connector 1.5 does not know such \
         a name",
        More(*.more)
    )]
    PaddedName {
        /// Name as written.
        parameter: String,
        /// Number of further such parameters in the connection.
        more: usize,
    },
    /// Repeated parameter; only in strict mode.
    #[error("parameter [{parameter}] is given twice; keep one of the two")]
    RepeatedParameter {
        /// Parameter name.
        parameter: String,
    },
    /// Undefined environment variable.
    #[error(
        "environment variable \"{variable}\" used in {context} is not defined; \
         define it, or write \\$ for a literal dollar sign"
    )]
    UndefinedVariable {
        /// Name without `$env.`.
        variable: String,
        /// Element, attribute or parameter that uses it.
        context: String,
    },
}

struct More(usize);

impl fmt::Display for More {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            more => write!(f, " (and {more} more in this connection)"),
        }
    }
}

struct Suggestion<'a>(Option<&'a str>);

impl fmt::Display for Suggestion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(nearest) => write!(f, "; the nearest known name is [{nearest}]"),
            None => f.write_str("; no known name is similar"),
        }
    }
}

/// Error in an extraction expression.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExpressionError {
    /// The text is not exactly one `#{...}`.
    #[error("invalid expression; write #{{EXPRESSION}} with nothing around it")]
    NotWrapped,
    /// The first segment is not a root.
    #[error(
        "missing root tokens [KEY|VALUE|TIMESTAMP|PARTITION|OFFSET|TOPIC|HEADERS] in the \
         expression [{0}]"
    )]
    MissingRoot(String),
    /// The expression ends with a dot.
    #[error("found unexpected trailing dot(s) in the expression [{0}]")]
    TrailingDot(String),
    /// White space at the edge of a segment.
    #[error("found unexpected white char in the expression [{0}]")]
    WhiteChar(String),
    /// A wildcard outside `field.*`.
    #[error("found unexpected wildcard char in the expression [{0}]")]
    UnexpectedWildcard(String),
    /// An index that is neither digits nor a quoted name.
    #[error("found the invalid indexed expression [{0}]; write [NUMBER] or ['NAME']")]
    InvalidIndex(String),
    /// A path below a scalar.
    #[error("found the invalid expression [{0}] for scalar values")]
    ScalarPath(String),
}

/// Error in an item template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// The text does not have the form of a template.
    #[error("invalid template expression; write PREFIX-#{{NAME=EXPRESSION,...}}")]
    Invalid,
    /// A parameter name occurs twice.
    #[error("no duplicated keys are allowed")]
    DuplicateParameter,
    /// Error in one of its expressions.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtractionTarget {
    /// A parameter of an item template.
    Template {
        /// Template name.
        template: Arc<str>,
        /// Parameter name.
        parameter: Arc<str>,
    },
    /// A field.
    Field(Arc<str>),
}

impl fmt::Display for ExtractionTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Template {
                template,
                parameter,
            } => {
                write!(
                    f,
                    "parameter \"{parameter}\" of item template \"{template}\""
                )
            }
            Self::Field(field) => write!(f, "field \"{field}\""),
        }
    }
}

/// Cause of an extraction failure, in the words of the connector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExtractionReason {
    /// Missing member or header.
    #[error("field [{0}] not found")]
    NotFound(Arc<str>),
    /// Index out of bounds.
    #[error("field not found at index [{0}]")]
    IndexNotFound(u32),
    /// Index on a scalar.
    #[error("field [{0}] is not indexed")]
    NotIndexed(Arc<str>),
    /// Member of a scalar.
    #[error("cannot retrieve field [{0}] from a scalar object")]
    ScalarObject(Arc<str>),
    /// A member of an array.
    #[error("cannot retrieve field [{0}] from an array object")]
    ArrayObject(Arc<str>),
    /// An index on an object.
    #[error("cannot retrieve index [{0}] from a non-array object")]
    NotArray(u32),
    /// A member of null.
    #[error("cannot retrieve field [{0}] from a null object")]
    NullObject(Arc<str>),
    /// An index on null.
    #[error("cannot retrieve index [{0}] from a null object")]
    NullIndex(u32),
    /// Several values instead of one.
    #[error("the expression must evaluate to a non-complex object")]
    NotScalar,
    /// Null as one of several template parameters.
    #[error("null cannot be a value of a template with more than one parameter")]
    NullParameter,
    /// Values of one record exceed 4 GiB.
    #[error("the extracted values exceed 4 GiB")]
    TooLarge,
    /// Key or value that is not of its type.
    #[error(transparent)]
    Payload(#[from] PayloadError),
}

impl ExtractionError {
    /// Returns `true` if the key or value is not of the configured type; `false` if a part of it is
    /// missing.
    pub fn is_deserialization(&self) -> bool {
        matches!(self.reason, ExtractionReason::Payload(_))
    }
}

/// Key or value that is not of its type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the {part} is not {}: {problem}", .evaluator.name())]
pub struct PayloadError {
    /// Key or value.
    pub part: RecordPart,
    /// Configured type.
    pub evaluator: Evaluator,
    /// Cause.
    pub problem: PayloadProblem,
}

impl PayloadError {
    pub(crate) fn new(part: RecordPart, evaluator: Evaluator, problem: PayloadProblem) -> Self {
        Self {
            part,
            evaluator,
            problem,
        }
    }
}

/// Reason why bytes are not of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PayloadProblem {
    /// Wrong length for a type of fixed size.
    #[error("{bytes} bytes instead of {expected}")]
    Length {
        /// Size of the payload.
        bytes: usize,
        /// Size of the type.
        expected: usize,
    },
    /// Invalid BOOLEAN.
    #[error("byte {0} is neither 0 nor 1")]
    NoBoolean(u8),
    /// Invalid UUID.
    #[error("not the text of a UUID")]
    NoUuid,
    /// Invalid JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
}
