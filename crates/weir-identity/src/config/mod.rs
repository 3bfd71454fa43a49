//! The sections `[auth]`, `[[authorize]]`, `[[session_rule]]` and `[[message]]`: as written, and
//! checked.

mod auth;
mod duration;
mod error;
mod message;
mod pattern;
mod raw;
mod rule;

pub use auth::{AuthConfig, IssuerConfig, KeyLocation, RevocationTopic, TokenSource};
pub use error::{AuthConfigError, RuleConfigError};
pub use message::{
    MessageDestination, MessageKey, MessageRule, SequencePattern, TOKEN_REFRESH_SEQUENCE,
};
pub(crate) use pattern::is_nameable;
pub use pattern::{ItemPattern, PatternError, ValuePattern};
pub use raw::{RawAuth, RawAuthorize, RawIssuer, RawMessage, RawSessionRule};
pub use rule::{
    Condition, ItemRule, RecordFilter, RuleEffect, SessionRule, SharedLimits, SnapshotRule,
};
