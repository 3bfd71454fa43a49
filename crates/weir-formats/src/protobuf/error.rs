//! Errors in Protobuf messages and schemas.

use std::sync::Arc;

use thiserror::Error;

use crate::error::PathFailure;

/// An error in a Protobuf message with its byte position, from 0, and the field that it is in.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{fault} at byte {at} in {place}")]
pub struct ProtobufError {
    pub(super) fault: ProtobufFault,
    pub(super) at: usize,
    /// Full name of the field, or of the message and the number of the field.
    pub(super) place: Arc<str>,
}

/// A fault at a position, before its field is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WireError {
    pub(super) fault: ProtobufFault,
    pub(super) at: usize,
}

/// Cause of an error in a Protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum ProtobufFault {
    #[error("unexpected end")]
    End,
    #[error("length beyond the end of the message")]
    Length,
    #[error("varint longer than 64 bits")]
    Varint,
    #[error("invalid field number")]
    Number,
    #[error("invalid wire type")]
    WireType,
    #[error("end of a group that was not started")]
    GroupEnd,
    #[error("malformed UTF-8")]
    Encoding,
    #[error("more than 100 levels of messages")]
    Depth,
    #[error("missing required field")]
    Required,
    #[error("message of more than 4 GiB")]
    Size,
    #[error("text of more than 64 MiB")]
    TextSize,
}

impl ProtobufFault {
    pub(super) fn at(self, at: usize) -> WireError {
        WireError { fault: self, at }
    }
}

impl WireError {
    /// Returns the error with the name of its field.
    #[cold]
    pub(super) fn in_place(self, place: &str) -> ProtobufError {
        ProtobufError {
            fault: self.fault,
            at: self.at,
            place: place.into(),
        }
    }
}

/// Reason why a message has no text for a node.
#[derive(Debug)]
pub enum Missing {
    /// The message has no such part, or it is not a single value.
    Reason(PathFailure),
    /// The bytes are not a message of the type.
    Protobuf(ProtobufError),
}

impl From<ProtobufError> for Missing {
    fn from(error: ProtobufError) -> Self {
        Self::Protobuf(error)
    }
}

/// An error in a descriptor set or a `.proto` text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProtobufSchemaError {
    /// A descriptor set that is not one.
    #[error("not a Protobuf descriptor set: {0}")]
    Descriptor(ProtobufError),
    /// Text that is not in the Protobuf language.
    #[error("{file}:{line}: {problem}")]
    Syntax {
        /// Name of the file as imported, `schema` for the main text.
        file: String,
        /// Line number from 1.
        line: u32,
        /// Cause.
        problem: String,
    },
    /// An import that is neither among the references nor built in.
    #[error("{file}: import \"{import}\" is neither a reference of the schema nor built in")]
    MissingImport {
        /// Name of the file that imports.
        file: String,
        /// Name of the missing file.
        import: String,
    },
    /// A definition that contradicts itself or others.
    #[error("{name}: {problem}")]
    Definition {
        /// Full name of the message, field or enum.
        name: String,
        /// Cause.
        problem: String,
    },
    /// A schema above a limit.
    #[error("Protobuf schema with more than {max} {of}")]
    TooLarge {
        /// Limit.
        max: usize,
        /// Quantity that is limited.
        of: &'static str,
    },
}

impl ProtobufSchemaError {
    pub(super) fn definition(name: &str, problem: impl Into<String>) -> Self {
        Self::Definition {
            name: name.to_owned(),
            problem: problem.into(),
        }
    }
}
