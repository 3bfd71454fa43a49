//! The sections `[auth]`, `[[authorize]]` and `[[session_rule]]`: as written, and checked.

mod auth;
mod duration;
mod error;
mod pattern;
mod raw;
mod rule;

pub use auth::{AuthConfig, IssuerConfig, KeyLocation, TokenSource};
pub use error::{AuthConfigError, RuleConfigError};
pub(crate) use pattern::is_nameable;
pub use pattern::{ItemPattern, PatternError, ValuePattern};
pub use raw::{RawAuth, RawAuthorize, RawIssuer, RawSessionRule};
pub use rule::{Condition, ItemRule, RecordFilter, RuleEffect, SessionRule, SnapshotRule};
