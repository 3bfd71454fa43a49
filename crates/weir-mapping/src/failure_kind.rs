//! Kinds of extraction failures: a bounded set, for metrics and logs.

use weir_formats::error::PathFailure;

use crate::error::{ExtractionError, ExtractionReason, PayloadProblem};

/// Kind of an extraction failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// A member, index or header is missing.
    NotFound,
    /// A path continues in a value of the wrong kind, such as an index on an object.
    WrongKind,
    /// A path continues below null.
    NullParent,
    /// Several values where one is needed.
    NotScalar,
    /// Null as one of several template parameters.
    NullParameter,
    /// The values of the record are too long.
    TooLarge,
    /// Key or value is not of its type.
    Undecodable,
    /// The document does not match its JSON schema.
    SchemaMismatch,
    /// The schema of the record is unknown or cannot be used.
    Schema,
}

impl FailureKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::NotFound,
        Self::WrongKind,
        Self::NullParent,
        Self::NotScalar,
        Self::NullParameter,
        Self::TooLarge,
        Self::Undecodable,
        Self::SchemaMismatch,
        Self::Schema,
    ];

    fn of_path(failure: &PathFailure) -> Self {
        match failure {
            PathFailure::NotFound(_) | PathFailure::IndexNotFound(_) => Self::NotFound,
            PathFailure::NotIndexed(_)
            | PathFailure::ScalarObject(_)
            | PathFailure::ArrayObject(_)
            | PathFailure::NotArray(_) => Self::WrongKind,
            PathFailure::NullObject(_) | PathFailure::NullIndex(_) => Self::NullParent,
            PathFailure::NotScalar => Self::NotScalar,
        }
    }

    /// Returns the word for metrics and logs.
    pub const fn label(self) -> &'static str {
        match self {
            Self::NotFound => "not_found",
            Self::WrongKind => "wrong_kind",
            Self::NullParent => "null_parent",
            Self::NotScalar => "not_scalar",
            Self::NullParameter => "null_parameter",
            Self::TooLarge => "too_large",
            Self::Undecodable => "undecodable",
            Self::SchemaMismatch => "schema_mismatch",
            Self::Schema => "schema",
        }
    }
}

impl ExtractionError {
    /// Returns the kind of the failure.
    pub fn kind(&self) -> FailureKind {
        match &self.reason {
            ExtractionReason::Path(failure) => FailureKind::of_path(failure),
            ExtractionReason::NullParameter => FailureKind::NullParameter,
            ExtractionReason::TooLarge => FailureKind::TooLarge,
            ExtractionReason::SchemaPending(_) => FailureKind::Schema,
            ExtractionReason::Payload(error) => match &error.problem {
                PayloadProblem::Mismatch(_) => FailureKind::SchemaMismatch,
                PayloadProblem::Frame(_)
                | PayloadProblem::SchemaNotLoaded
                | PayloadProblem::Schema { .. } => FailureKind::Schema,
                _ => FailureKind::Undecodable,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use super::*;
    use crate::error::{ExtractionTarget, PayloadError};
    use crate::evaluator::Evaluator;
    use crate::record_part::RecordPart;

    fn kind(reason: ExtractionReason) -> FailureKind {
        let error = ExtractionError {
            target: ExtractionTarget::Field("f".into()),
            expression: "VALUE.a".into(),
            reason,
        };
        error.kind()
    }

    #[test]
    fn numbers_and_labels_are_unique() {
        for (number, kind) in FailureKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
        }
        let labels: BTreeSet<_> = FailureKind::ALL.map(FailureKind::label).into();
        assert_eq!(labels.len(), FailureKind::ALL.len());
    }

    #[test]
    fn reasons_have_kinds() {
        let name: Arc<str> = "a".into();
        let payload = |problem| {
            ExtractionReason::from(PayloadError {
                part: RecordPart::Value,
                evaluator: Evaluator::Json,
                problem,
            })
        };
        let reason = "no such id".into();
        let id = crate::schema::SchemaId::Number(7);
        let path = ExtractionReason::Path;
        for (found, expected) in [
            (
                path(PathFailure::NotFound(Arc::clone(&name))),
                FailureKind::NotFound,
            ),
            (path(PathFailure::IndexNotFound(3)), FailureKind::NotFound),
            (path(PathFailure::NotArray(0)), FailureKind::WrongKind),
            (
                path(PathFailure::ScalarObject(name)),
                FailureKind::WrongKind,
            ),
            (path(PathFailure::NullIndex(0)), FailureKind::NullParent),
            (path(PathFailure::NotScalar), FailureKind::NotScalar),
            (payload(PayloadProblem::NotUuid), FailureKind::Undecodable),
            (
                payload(PayloadProblem::SchemaNotLoaded),
                FailureKind::Schema,
            ),
            (
                payload(PayloadProblem::Schema { id, reason }),
                FailureKind::Schema,
            ),
        ] {
            assert_eq!(kind(found), expected);
        }
    }
}
