//! Every error of the crate: configuration errors are the operator's, item name errors the
//! client's, extraction errors the record's.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::evaluator::Evaluator;
use crate::json::JsonError;
use crate::record_part::RecordPart;

/// A configuration that cannot be carried out: where it is and what is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{at}: {problem}")]
pub struct ConfigError {
    /// File, line and connection.
    pub at: Location,
    /// What is wrong and how to mend it.
    pub problem: Box<Problem>,
}

/// A place in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// File name as the caller gave it.
    pub file: String,
    /// Line number from 1, where it is known.
    pub line: Option<u32>,
    /// Connection (data provider) name, where the place is inside one.
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

/// What is wrong in a configuration; each text names the parameter, its value and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// The file is not well-formed XML.
    #[error("not well-formed XML: {0}")]
    Xml(String),
    /// The file is the configuration of the connector's other flavour.
    #[error(
        "this is a configuration of the Kafka Connect sink (it has [{key}]), not adapters.xml; \
         weir gateway does not run inside Kafka Connect: write an adapters.xml with \
         item-template.NAME for item.templates, map.TOPIC.to for topic.mappings, field.NAME for \
         record.mappings, and bootstrap.servers"
    )]
    KafkaConnect {
        /// The key that tells.
        key: String,
    },
    /// The file is a configuration of Weir's own.
    #[error("this is TOML, not adapters.xml; give it with --config")]
    Toml,
    /// An element or attribute that must be there is not.
    #[error("missing {what}; {remedy}")]
    MissingPart {
        /// Element or attribute.
        what: String,
        /// What to write.
        remedy: &'static str,
    },
    /// An element the file format does not know; only in strict mode.
    #[error("unknown element <{element}> inside <{parent}>; remove it or mend its spelling")]
    UnknownElement {
        /// Element name.
        element: String,
        /// Name of the element around it.
        parent: String,
    },
    /// An adapter class that is not the connector's; only in strict mode.
    #[error("adapter class \"{class}\" is not the Kafka connector's \"{expected}\"")]
    ForeignClass {
        /// Class in the file.
        class: String,
        /// Class of the connector.
        expected: &'static str,
    },
    /// Two connections share a name.
    #[error("a second data_provider is named \"{0}\"; give each connection a name of its own")]
    DuplicateConnection(String),
    /// A mandatory parameter is absent.
    #[error("missing required parameter [{parameter}]; {remedy}")]
    MissingParameter {
        /// Parameter name.
        parameter: String,
        /// What to write.
        remedy: &'static str,
    },
    /// Records that evaluate commands would lose their order.
    #[error(
        "[fields.evaluate.as.command.enable] = \"true\" needs exactly one consumer thread; \
         remove [record.consume.with.num.threads] or write 1"
    )]
    ThreadsOfCommand,
    /// A multi-valued parameter occurs nowhere.
    #[error("specify at least one parameter [{parameter}]; {remedy}")]
    MissingAny {
        /// Pattern of the parameter name.
        parameter: &'static str,
        /// What to write.
        remedy: &'static str,
    },
    /// A value outside the parameter's type.
    #[error("specify a valid value for parameter [{parameter}]: \"{value}\" is not {expected}")]
    BadValue {
        /// Parameter name.
        parameter: String,
        /// Value as written; secrets are masked.
        value: String,
        /// What is accepted.
        expected: String,
    },
    /// A multi-valued parameter whose variable part is missing.
    #[error("specify a valid parameter [{expected}] instead of [{parameter}]")]
    MalformedName {
        /// Parameter name as written.
        parameter: String,
        /// Pattern of the parameter name.
        expected: &'static str,
    },
    /// A topic maps to a template that is not defined.
    #[error(
        "no item template [{template}] found, which parameter [{parameter}] refers to; \
         define [item-template.{template}]"
    )]
    UnknownTemplate {
        /// Parameter that refers to it.
        parameter: String,
        /// Template name.
        template: String,
    },
    /// `item-template.` without a name after it.
    #[error(
        "item template reference must be a non-empty string in parameter [{parameter}]; \
         write item-template.NAME"
    )]
    EmptyTemplateReference {
        /// Parameter that refers to it.
        parameter: String,
    },
    /// A template that does not parse.
    #[error(
        "got the following error while evaluating the template [{template}] containing the \
         expression [{expression}]: {reason}"
    )]
    Template {
        /// Template name.
        template: String,
        /// Template text.
        expression: String,
        /// What is wrong with it.
        reason: TemplateError,
    },
    /// A field expression that does not parse or does not fit its evaluator.
    #[error(
        "got the following error while evaluating the field [{field}] containing the \
         expression [{expression}]: {reason}"
    )]
    Field {
        /// Field name.
        field: String,
        /// Expression text.
        expression: String,
        /// What is wrong with it.
        reason: ExpressionError,
    },
    /// A setting that this version does not carry out, and that would change results if ignored.
    #[error("[{parameter}] = \"{value}\" is not supported by this version; {remedy}")]
    Unsupported {
        /// Parameter name as written.
        parameter: String,
        /// Value.
        value: String,
        /// What to do instead.
        remedy: &'static str,
    },
    /// A parameter the connector does not know; only in strict mode.
    #[error("unknown parameter [{parameter}]{}", Suggestion(nearest.as_deref()))]
    UnknownParameter {
        /// Parameter name.
        parameter: String,
        /// Nearest known name, if one is near.
        nearest: Option<String>,
    },
    /// A name of an earlier connector version; only in strict mode.
    #[error("parameter [{parameter}] is not known to connector 1.5; write [{current}]")]
    LegacyName {
        /// Name as written.
        parameter: String,
        /// Name to write.
        current: String,
    },
    /// A parameter whose name begins or ends with a blank; only in strict mode.
    #[error(
        "parameter [{parameter}] begins or ends with a blank{}; connector 1.5 does not know such \
         a name",
        More(*.more)
    )]
    PaddedName {
        /// Name as written.
        parameter: String,
        /// Further ones of the same connection.
        more: usize,
    },
    /// A parameter given twice; only in strict mode.
    #[error("parameter [{parameter}] is given twice; keep one of the two")]
    RepeatedParameter {
        /// Parameter name.
        parameter: String,
    },
    /// A variable that the environment does not define.
    #[error(
        "environment variable \"{variable}\" used in {context} is not defined; \
         define it, or write \\$ for a literal dollar sign"
    )]
    UndefinedVariable {
        /// Name without `$env.`.
        variable: String,
        /// Where it is used.
        context: String,
    },
}

struct More(usize);

impl fmt::Display for More {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => Ok(()),
            more => write!(f, ", and so do {more} more of this connection"),
        }
    }
}

struct Suggestion<'a>(Option<&'a str>);

impl fmt::Display for Suggestion<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(nearest) => write!(f, "; the nearest known name is [{nearest}]"),
            None => f.write_str("; no known name is near"),
        }
    }
}

/// A mistake in an extraction expression.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExpressionError {
    /// Not exactly one `#{...}`.
    #[error("invalid expression; write #{{EXPRESSION}} with nothing around it")]
    NotWrapped,
    /// The first segment is none of the roots.
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
    /// A path below something that has no parts.
    #[error("found the invalid expression [{0}] for scalar values")]
    ScalarPath(String),
}

/// A mistake in an item template.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    /// The text does not have the form of a template.
    #[error("invalid template expression; write PREFIX-#{{NAME=EXPRESSION,...}}")]
    Invalid,
    /// A parameter name occurs twice.
    #[error("no duplicated keys are allowed")]
    DuplicateParameter,
    /// One of its expressions is wrong.
    #[error(transparent)]
    Expression(#[from] ExpressionError),
}

/// An item name a client wrote that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ItemNameError {
    /// Neither `PREFIX` nor `PREFIX-[NAME=VALUE,...]`.
    #[error("Invalid Item")]
    Invalid,
    /// A parameter name occurs twice.
    #[error("No duplicated keys are allowed")]
    DuplicateParameter,
}

/// A record from which a template or field cannot be extracted.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot extract {place} by [{expression}]: {reason}")]
pub struct ExtractionError {
    /// The template parameter or field that asked for it.
    pub place: ExtractionTarget,
    /// The expression.
    pub expression: Arc<str>,
    /// Why it failed.
    pub reason: ExtractionReason,
}

/// What an extraction was for.
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

/// Why an extraction failed; texts as the connector words them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExtractionReason {
    /// A member or header is absent.
    #[error("field [{0}] not found")]
    NotFound(Arc<str>),
    /// An index beyond the end.
    #[error("field not found at index [{0}]")]
    IndexNotFound(u32),
    /// An index on a scalar.
    #[error("field [{0}] is not indexed")]
    NotIndexed(Arc<str>),
    /// A member of a scalar.
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
    /// Several values where one is needed.
    #[error("the expression must evaluate to a non-complex object")]
    NotScalar,
    /// Null as one of several template parameters.
    #[error("null cannot be a value of a template with more than one parameter")]
    NullParameter,
    /// The values of one record exceed 4 GiB.
    #[error("the extracted values exceed 4 GiB")]
    TooLarge,
    /// The key or value is not of its type; nothing can be extracted from it.
    #[error(transparent)]
    Payload(#[from] PayloadError),
}

impl ExtractionError {
    /// True if the key or value is not of the configured type, rather than lacking something.
    pub fn is_deserialization(&self) -> bool {
        matches!(self.reason, ExtractionReason::Payload(_))
    }
}

/// A key or value that is not of its type.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the {part} is not {}: {problem}", .evaluator.name())]
pub struct PayloadError {
    /// Which of the two.
    pub part: RecordPart,
    /// What it should be.
    pub evaluator: Evaluator,
    /// What is wrong with it.
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

/// Why bytes are not of a type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PayloadProblem {
    /// Types of a fixed size.
    #[error("{bytes} bytes instead of {expected}")]
    Length {
        /// Size of the payload.
        bytes: usize,
        /// Size of the type.
        expected: usize,
    },
    /// BOOLEAN.
    #[error("byte {0} is neither 0 nor 1")]
    NoBoolean(u8),
    /// UUID.
    #[error("not the text of a UUID")]
    NoUuid,
    /// JSON.
    #[error(transparent)]
    Json(#[from] JsonError),
}
