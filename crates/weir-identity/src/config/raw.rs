//! Sections as written in `gateway.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One value or a list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    pub(super) fn as_slice(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

/// Value of a condition.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum RawScalar {
    Text(String),
    Integer(i64),
    Bool(bool),
}

/// The section `[auth]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawAuth {
    pub(super) sources: Option<Vec<String>>,
    pub(super) anonymous: bool,
    pub(super) user_claim: Option<String>,
    pub(super) tenant_claim: Option<String>,
    pub(super) skew: Option<String>,
    pub(super) revocations: Option<RawRevocations>,
    pub(super) issuer: Vec<RawIssuer>,
}

/// The section `[auth.revocations]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRevocations {
    pub(super) connection: String,
    pub(super) topic: String,
}

/// A section `[[auth.issuer]]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawIssuer {
    pub(super) issuer: String,
    pub(super) audience: Option<OneOrMany<String>>,
    pub(super) algorithms: Option<Vec<String>>,
    pub(super) keys: Option<String>,
    pub(super) jwks_url: Option<String>,
    pub(super) jwks_file: Option<String>,
    pub(super) pem_file: Option<String>,
    pub(super) secret_file: Option<String>,
    pub(super) ca_file: Option<String>,
    pub(super) strict_type: bool,
    pub(super) refresh: Option<String>,
    pub(super) max_stale: Option<String>,
}

/// A section `[[authorize]]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawAuthorize {
    pub(super) name: String,
    pub(super) effect: Option<String>,
    pub(super) connection: Option<OneOrMany<String>>,
    pub(super) items: Vec<String>,
    pub(super) when: BTreeMap<String, OneOrMany<RawScalar>>,
    pub(super) modes: Option<Vec<String>>,
    pub(super) fields: Option<Vec<String>>,
    pub(super) max_frequency: Option<f64>,
    pub(super) snapshot: Option<RawSnapshot>,
    #[serde(rename = "where")]
    pub(super) filter: Option<String>,
}

/// Value of `snapshot`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged)]
pub(super) enum RawSnapshot {
    Allowed(bool),
    Length(u32),
}

/// A section `[[session_rule]]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawSessionRule {
    pub(super) name: String,
    pub(super) when: BTreeMap<String, OneOrMany<RawScalar>>,
    pub(super) max_bandwidth: Option<f64>,
    pub(super) max_sessions: Option<u32>,
    pub(super) max_subscriptions: Option<u32>,
    pub(super) max_age: Option<String>,
    pub(super) end_oldest: bool,
    pub(super) per_user: RawSharedLimits,
    pub(super) per_tenant: RawSharedLimits,
}

/// Limits that sessions share.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSharedLimits {
    pub(super) sessions: Option<u32>,
    pub(super) subscriptions: Option<u32>,
    pub(super) requests_per_second: Option<f64>,
    pub(super) bandwidth: Option<f64>,
}

/// A section `[[message]]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawMessage {
    pub(super) name: String,
    pub(super) when: BTreeMap<String, OneOrMany<RawScalar>>,
    pub(super) sequences: Option<Vec<String>>,
    pub(super) destination: RawDestination,
    pub(super) connection: String,
    pub(super) topic: String,
    pub(super) key: Option<String>,
    pub(super) max_bytes: Option<u32>,
    pub(super) rate_per_session: Option<f64>,
    pub(super) rate_per_user: Option<f64>,
}

/// Destination of client messages as written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum RawDestination {
    #[default]
    Topic,
    Adapter,
}
