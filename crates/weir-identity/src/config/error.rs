//! Errors in the sections of this crate.

use thiserror::Error;

use super::pattern::PatternError;
use crate::claims::ClaimPathError;
use crate::modes::UnknownMode;
use crate::url::UrlError;

/// Error in `[auth]`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum AuthConfigError {
    #[error("unknown token source \"{0}\"; write password, header, certificate or cookie:NAME")]
    TokenSource(String),
    #[error("token source \"{0}\" is listed twice")]
    DuplicateSource(String),
    #[error("no token source is listed")]
    NoSource,
    #[error("{key}: {error}")]
    ClaimPath {
        key: &'static str,
        error: ClaimPathError,
    },
    #[error("{key} = \"{value}\" is not a duration {range}; write for example \"30s\" or \"8h\"")]
    Duration {
        key: &'static str,
        value: String,
        range: &'static str,
    },
    #[error("revocations: connection and topic must not be empty")]
    Revocations,
    #[error("an issuer has no name; set issuer to the claim \"iss\" of its tokens")]
    NoIssuerName,
    #[error("issuer \"{0}\" is configured twice")]
    DuplicateIssuer(String),
    #[error("issuer \"{0}\" has no audience; list the values of the claim \"aud\" that mean Weir")]
    NoAudience(String),
    #[error("issuer \"{issuer}\": unknown algorithm \"{name}\"; known are {known}")]
    Algorithm {
        issuer: String,
        name: String,
        known: String,
    },
    #[error("issuer \"{0}\" lists no algorithm")]
    NoAlgorithm(String),
    #[error("issuer \"{0}\" mixes HS256 with public keys; use HS256 with secret_file only")]
    MixedAlgorithms(String),
    #[error(
        "issuer \"{0}\" needs exactly one of keys = \"discovery\", jwks_url, jwks_file, pem_file \
         and secret_file"
    )]
    KeyLocation(String),
    #[error("issuer \"{issuer}\": {key}: {error}")]
    Url {
        issuer: String,
        key: &'static str,
        error: UrlError,
    },
}

/// Error in `[[authorize]]`, `[[session_rule]]` or `[[message]]`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum RuleConfigError {
    #[error("rule {number} has no name")]
    NoName { number: usize },
    #[error("two rules have the name \"{0}\"")]
    DuplicateName(String),
    #[error("{count} rules, at most {count_max} are allowed")]
    TooMany { count: usize, count_max: usize },
    #[error("rule \"{rule}\": unknown effect \"{effect}\"; write allow or deny")]
    Effect { rule: String, effect: String },
    #[error("rule \"{rule}\": {key} is empty; leave it out to allow all")]
    Empty { rule: String, key: &'static str },
    #[error("rule \"{rule}\": {error}")]
    Pattern { rule: String, error: PatternError },
    #[error("rule \"{rule}\": {error}")]
    ClaimPath { rule: String, error: ClaimPathError },
    #[error("rule \"{rule}\": {error}")]
    Mode { rule: String, error: UnknownMode },
    #[error("rule \"{rule}\": {key} must be a finite number above 0")]
    NotPositive { rule: String, key: &'static str },
    #[error("rule \"{rule}\": snapshot = true is the default; write false or a length above 0")]
    Snapshot { rule: String },
    #[error("rule \"{rule}\": {key} has no meaning in a rule that denies")]
    DenyLimit { rule: String, key: &'static str },
    #[error("rule \"{rule}\": where = \"{text}\" is not EXPRESSION = {{claims.PATH}}: {cause}")]
    RecordFilter {
        rule: String,
        text: String,
        cause: String,
    },
    #[error("rule \"{rule}\": max_age = \"{value}\" is not a duration; write for example \"8h\"")]
    MaxAge { rule: String, value: String },
    #[error("rule \"{rule}\" sets no limit")]
    NoLimit { rule: String },
    #[error("rule \"{rule}\": {key} is missing")]
    Missing { rule: String, key: &'static str },
    #[error("rule \"{rule}\": {key} is for topics; the destination is the adapter")]
    OfTopic { rule: String, key: &'static str },
    #[error(
        "rule \"{rule}\": sequence \"{sequence}\": write a name of letters, digits and _, a prefix \
         and *, or UNORDERED_MESSAGES; weir_auth is reserved"
    )]
    Sequence { rule: String, sequence: String },
    #[error(
        "rule \"{rule}\": key = \"{key}\": write {{sequence}} or {{claims.PATH}}, or leave it out"
    )]
    MessageKey { rule: String, key: String },
    #[error("rule \"{rule}\": end_oldest needs max_sessions")]
    EndOldest { rule: String },
    #[error("rule \"{rule}\": per_user.sessions is max_sessions; write one of them")]
    TwoSessions { rule: String },
}
