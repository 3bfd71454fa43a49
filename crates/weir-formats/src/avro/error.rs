//! Errors in Avro schemas and records.

use std::sync::Arc;

use thiserror::Error;

/// Error in an Avro schema.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("Avro schema{place}: {fault}")]
pub struct AvroSchemaError {
    /// Empty, or the enclosing records and fields.
    pub(super) place: String,
    pub(super) fault: SchemaFault,
}

/// Cause of an error in a schema.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum SchemaFault {
    #[error("not JSON: {0}")]
    Json(String),
    #[error("{0} bytes, but at most {1} are accepted")]
    Long(usize, usize),
    #[error("expected a type as text, object or array, not {0}")]
    NotType(&'static str),
    #[error("missing or malformed attribute \"{0}\" of a type \"{1}\"")]
    Attribute(&'static str, String),
    #[error("unknown type \"{0}\"; define it before its first use or pass it as a reference")]
    UnknownType(String),
    #[error("the name \"{0}\" is defined twice")]
    Redefined(String),
    #[error("the name \"{0}\" occurs twice")]
    Repeated(String),
    #[error("a union contains a union")]
    NestedUnion,
    #[error("a union contains the type \"{0}\" twice")]
    RepeatedBranch(String),
}

/// Error in an Avro record.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}{fault} at byte {at}", in_field(.path))]
pub struct AvroError {
    pub(super) fault: AvroErrorKind,
    /// Byte position, from 0.
    pub(super) at: usize,
    /// Path of the innermost value, empty for the whole record.
    pub(super) path: Arc<str>,
}

fn in_field(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    format!("field [{path}]: ")
}

/// Error in a record before its path is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LocatedError {
    pub(super) fault: AvroErrorKind,
    pub(super) at: usize,
}

/// Cause of an error in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum AvroErrorKind {
    #[error("unexpected end, {0} more bytes expected")]
    End(u64),
    #[error("number of more than 64 bits")]
    Varint,
    #[error("{0} does not fit into an int")]
    Int(i64),
    #[error("byte {0} is neither 0 nor 1")]
    Boolean(u8),
    #[error("length {0} exceeds the {1} bytes that follow")]
    Length(i64, usize),
    #[error("union branch {0} of {1}")]
    Branch(i32, u32),
    #[error("enum symbol {0} of {1}")]
    Symbol(i32, u32),
    #[error("{0} items cannot be in the {1} bytes that follow")]
    Count(u64, usize),
    #[error("more than {0} items without any byte")]
    EmptyItems(u64),
    #[error("a block has another size than its {0} bytes")]
    BlockSize(usize),
    #[error("more than {0} levels")]
    Depth(usize),
    #[error("{0} bytes after the record")]
    Trailing(usize),
    #[error("record of more than 4 GiB")]
    Size,
    #[error("text of more than {0} bytes")]
    Text(usize),
    #[error("the wanted paths have too many variants in this schema")]
    Plan,
}

impl AvroErrorKind {
    pub(super) fn at(self, at: usize) -> LocatedError {
        LocatedError { fault: self, at }
    }
}
