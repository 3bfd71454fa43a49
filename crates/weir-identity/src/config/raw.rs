//! Sections as written in `gateway.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One value or a list.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(super) enum RawScalar {
    Text(String),
    Integer(i64),
    Bool(bool),
}

/// The section `[auth]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RawAuth {
    /// Sources of credentials in their order: password, header, cookie:NAME, certificate.
    pub(super) sources: Option<Vec<String>>,
    /// Admits clients without any credentials.
    pub(super) anonymous: bool,
    /// Claim with the user name, default sub.
    pub(super) user_claim: Option<String>,
    /// Claim with the tenant, for limits; default none.
    pub(super) tenant_claim: Option<String>,
    /// Allowed difference of clocks, default 30s, at most 120s.
    pub(super) skew: Option<String>,
    /// Topic with the revocations that gateways share.
    pub(super) revocations: Option<RawRevocations>,
    /// Issuers of tokens.
    pub(super) issuer: Vec<RawIssuer>,
}

impl RawAuth {
    /// Creates the section of these issuers, with defaults for what is `None`.
    pub fn of_issuers(
        issuer: Vec<RawIssuer>,
        user_claim: Option<String>,
        skew: Option<String>,
    ) -> Self {
        Self {
            issuer,
            user_claim,
            skew,
            ..Self::default()
        }
    }
}

/// The section `[auth.revocations]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct RawRevocations {
    /// Kafka connection whose brokers have the topic.
    pub(super) connection: String,
    /// Compacted topic with the revocations.
    pub(super) topic: String,
}

/// A section `[[auth.issuer]]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RawIssuer {
    /// Exactly the claim `iss`.
    pub(super) issuer: String,
    /// A token must have one of these in `aud`.
    pub(super) audience: Option<OneOrMany<String>>,
    /// Allowed signature algorithms, default RS256 and ES256.
    pub(super) algorithms: Option<Vec<String>>,
    /// `discovery`: keys of the metadata document of the issuer.
    pub(super) keys: Option<String>,
    /// URL of the key set.
    pub(super) jwks_url: Option<String>,
    /// File with the key set.
    pub(super) jwks_file: Option<String>,
    /// File with a public key.
    pub(super) pem_file: Option<String>,
    /// File with a secret of at least 32 bytes, for HS256.
    pub(super) secret_file: Option<String>,
    /// Authorities of the issuer's server as PEM; default those of the machine.
    pub(super) ca_file: Option<String>,
    /// `true` to accept only tokens of the type at+jwt.
    pub(super) strict_type: bool,
    /// Age at which keys are fetched again, default 10m.
    pub(super) refresh: Option<String>,
    /// Age at which keys are dropped while the provider is down, default 24h.
    pub(super) max_stale: Option<String>,
}

/// A section `[[authorize]]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RawAuthorize {
    /// Unique name.
    pub(super) name: String,
    /// `allow`, the default, or `deny`, which wins over every `allow`.
    pub(super) effect: Option<String>,
    /// Names of Kafka connections, default all.
    pub(super) connection: Option<OneOrMany<String>>,
    /// Item names and patterns.
    pub(super) items: Vec<String>,
    /// Claims with their allowed values; all must hold.
    pub(super) when: BTreeMap<String, OneOrMany<RawScalar>>,
    /// Subscription modes, default all.
    pub(super) modes: Option<Vec<String>>,
    /// Fields, default all.
    pub(super) fields: Option<Vec<String>>,
    /// Maximum updates per second and item.
    pub(super) max_frequency: Option<f64>,
    /// `false` for none, or the maximum length of a snapshot of mode DISTINCT.
    pub(super) snapshot: Option<RawSnapshot>,
    /// Records that the client may see, as EXPRESSION = {claims.NAME}; default all.
    #[serde(rename = "where")]
    pub(super) filter: Option<String>,
}

/// Value of `snapshot`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub(super) enum RawSnapshot {
    Allowed(bool),
    Length(u32),
}

/// A section `[[session_rule]]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RawSessionRule {
    /// Unique name.
    pub(super) name: String,
    /// Claims with their values; the first rule whose conditions hold applies.
    pub(super) when: BTreeMap<String, OneOrMany<RawScalar>>,
    /// Maximum kbit/s of a session.
    pub(super) max_bandwidth: Option<f64>,
    /// Maximum number of sessions of a user.
    pub(super) max_sessions: Option<u32>,
    /// Maximum number of subscriptions of a session.
    pub(super) max_subscriptions: Option<u32>,
    /// Age at which a session ends.
    pub(super) max_age: Option<String>,
    /// `true`: a further session ends the oldest one; `false`, the default: it is rejected.
    pub(super) end_oldest: bool,
    /// Limits that the sessions of a user share.
    pub(super) per_user: RawSharedLimits,
    /// Limits that the sessions of a tenant share.
    pub(super) per_tenant: RawSharedLimits,
}

/// Limits that sessions share.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawSharedLimits {
    /// Maximum number of sessions.
    pub(super) sessions: Option<u32>,
    /// Maximum number of subscriptions.
    pub(super) subscriptions: Option<u32>,
    /// Maximum requests per second.
    pub(super) requests_per_second: Option<f64>,
    /// Maximum kbit/s.
    pub(super) bandwidth: Option<f64>,
}

/// A section `[[message]]`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RawMessage {
    /// Unique name, for metrics and remarks.
    pub(super) name: String,
    /// Claims with their values; all must hold.
    pub(super) when: BTreeMap<String, OneOrMany<RawScalar>>,
    /// Names and patterns of sequences, default all.
    pub(super) sequences: Option<Vec<String>>,
    /// Kafka topic, the default, or remote adapter.
    pub(super) destination: RawDestination,
    /// Kafka connection whose brokers have the topic.
    pub(super) connection: String,
    /// Topic of the records.
    pub(super) topic: String,
    /// Key of the records: `{sequence}` or `{claims.PATH}`; default none.
    pub(super) key: Option<String>,
    /// Maximum bytes of a message, default 10,000.
    pub(super) max_bytes: Option<u32>,
    /// Messages per second of a session, default 10.
    pub(super) rate_per_session: Option<f64>,
    /// Messages per second of all sessions of a user, default no limit.
    pub(super) rate_per_user: Option<f64>,
}

/// Destination of client messages as written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum RawDestination {
    #[default]
    Topic,
    Adapter,
}
