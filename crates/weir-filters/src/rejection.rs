//! The reason why a record must not pass.

use std::borrow::Cow;

/// The reason why a record must not pass, reported to its producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordRejection(pub(crate) Cow<'static, str>);
