//! Errors of extraction expressions, and reasons why a path selects no value.

use std::sync::Arc;

use thiserror::Error;

/// Error in an extraction expression.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ExpressionError {
    /// Text that is not `#{EXPRESSION}`.
    #[error("invalid expression; write #{{EXPRESSION}} with nothing around it")]
    NotWrapped,
    /// A first token that is not a part of a record.
    #[error(
        "missing root tokens [KEY|VALUE|TIMESTAMP|PARTITION|OFFSET|TOPIC|HEADERS] in the \
         expression [{0}]"
    )]
    MissingRoot(String),
    /// A dot at the end.
    #[error("found unexpected trailing dot(s) in the expression [{0}]")]
    TrailingDot(String),
    /// White space at the edge of a segment.
    #[error("found unexpected white char in the expression [{0}]")]
    WhiteChar(String),
    /// A wildcard outside `field.*`.
    #[error("found unexpected wildcard char in the expression [{0}]")]
    UnexpectedWildcard(String),
    /// `field.*` without a wildcard.
    #[error("found missing wildcard char in the expression [{0}]; write EXPRESSION.*")]
    MissingWildcard(String),
    /// A wildcard on a root without members.
    #[error("cannot handle dynamic extraction from the constant expression [{0}]")]
    ConstantWildcard(String),
    /// Brackets with neither a number nor a quoted name.
    #[error("found the invalid indexed expression [{0}]; write [NUMBER] or ['NAME']")]
    InvalidIndex(String),
    /// A path below a scalar.
    #[error("found the invalid expression [{0}] for scalar values")]
    ScalarPath(String),
}

/// Reason why a path selects no single value, in the words of the connector.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PathFailure {
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
}
