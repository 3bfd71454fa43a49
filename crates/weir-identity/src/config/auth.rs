//! The section `[auth]`, checked.

use std::sync::Arc;

use super::duration::parse_ms;
use super::error::AuthConfigError;
use super::raw::{OneOrMany, RawAuth, RawIssuer};
use crate::algorithm::{Algorithm, AlgorithmSet};
use crate::claims::ClaimPath;
use crate::keys::{RotationLimits, discovery_url};
use crate::url::SafeUrl;

/// Longest clock skew, in milliseconds.
const SKEW_MS_MAX: u64 = 120_000;

/// Where a token may come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenSource {
    /// The password of the session (`LS_password`).
    Password,
    /// The header `Authorization`.
    Header,
    /// A cookie of this name.
    Cookie(Box<str>),
    /// The client's certificate.
    Certificate,
}

/// How clients are identified.
#[derive(Debug, Clone, PartialEq)]
pub struct AuthConfig {
    /// Sources, in the order in which they are looked at. Default: the password.
    pub sources: Vec<TokenSource>,
    /// Clients without credentials are admitted. Default: they are not.
    pub anonymous: bool,
    /// Claim with the user name. Default: `sub`.
    pub user_claim: ClaimPath,
    /// Claim with the tenant, for limits.
    pub tenant_claim: Option<ClaimPath>,
    /// Allowed difference of clocks. Default: 30 s.
    pub skew_ms: u64,
    /// Topic that shares revocations between gateways.
    pub revocations: Option<RevocationTopic>,
    /// Issuers of tokens.
    pub issuers: Vec<IssuerConfig>,
}

/// Kafka topic with revocations, compacted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevocationTopic {
    /// Name of the Kafka connection whose brokers have the topic.
    pub connection: Box<str>,
    /// Name of the topic.
    pub topic: Box<str>,
}

/// Where the keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeyLocation {
    /// Discovery document of the issuer, at this URL.
    Discovery(SafeUrl),
    /// Key set, at this URL.
    Url(SafeUrl),
    /// File with a key set.
    KeySetFile(Box<str>),
    /// File with one public key.
    PemFile(Box<str>),
    /// File with a shared secret.
    SecretFile(Box<str>),
}

/// An issuer of tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct IssuerConfig {
    /// Exact value of the claim `iss`.
    pub issuer: Arc<str>,
    /// Values of the claim `aud` of which a token must have one.
    pub audience: Vec<Box<str>>,
    /// Algorithms. Default: RS256 and ES256, or HS256 with a secret.
    pub algorithms: AlgorithmSet,
    /// Where its keys are.
    pub keys: KeyLocation,
    /// File with the authorities that sign the certificate of the issuer's server; `None`, the
    /// default, for those of the machine.
    pub ca_file: Option<Box<str>>,
    /// Only tokens of the type `at+jwt` are accepted. Default: also `JWT` and none.
    pub strict_type: bool,
    /// When keys are fetched. Default: every 10 minutes; old ones are used for 24 hours.
    pub rotation: RotationLimits,
}

impl AuthConfig {
    /// Checks a section.
    pub fn new(raw: &RawAuth) -> Result<Self, AuthConfigError> {
        let path = |key, text: &str| {
            ClaimPath::parse(text).map_err(|error| AuthConfigError::ClaimPath { key, error })
        };
        let user_claim = raw.user_claim.as_deref().unwrap_or("sub");
        let tenant_claim = raw.tenant_claim.as_deref();
        let mut issuers: Vec<IssuerConfig> = Vec::new();
        for raw in &raw.issuer {
            let issuer = IssuerConfig::new(raw)?;
            if issuers.iter().any(|other| other.issuer == issuer.issuer) {
                return Err(AuthConfigError::DuplicateIssuer(raw.issuer.clone()));
            }
            issuers.push(issuer);
        }
        Ok(Self {
            sources: sources(raw.sources.as_deref())?,
            anonymous: raw.anonymous,
            user_claim: path("user_claim", user_claim)?,
            tenant_claim: tenant_claim
                .map(|text| path("tenant_claim", text))
                .transpose()?,
            skew_ms: duration_ms("skew", raw.skew.as_deref(), 30_000, (0, SKEW_MS_MAX))?,
            revocations: revocations(raw)?,
            issuers,
        })
    }
}

fn revocations(raw: &RawAuth) -> Result<Option<RevocationTopic>, AuthConfigError> {
    let Some(raw) = &raw.revocations else {
        return Ok(None);
    };
    match raw.connection.is_empty() || raw.topic.is_empty() {
        true => Err(AuthConfigError::Revocations),
        false => Ok(Some(RevocationTopic {
            connection: raw.connection.as_str().into(),
            topic: raw.topic.as_str().into(),
        })),
    }
}

fn sources(names: Option<&[String]>) -> Result<Vec<TokenSource>, AuthConfigError> {
    let Some(names) = names else {
        return Ok(vec![TokenSource::Password]);
    };
    let mut sources = Vec::new();
    for name in names {
        let source = source(name).ok_or_else(|| AuthConfigError::TokenSource(name.clone()))?;
        if sources.contains(&source) {
            return Err(AuthConfigError::DuplicateSource(name.clone()));
        }
        sources.push(source);
    }
    match sources.is_empty() {
        true => Err(AuthConfigError::NoSource),
        false => Ok(sources),
    }
}

fn source(name: &str) -> Option<TokenSource> {
    match name {
        "password" => Some(TokenSource::Password),
        "header" => Some(TokenSource::Header),
        "certificate" => Some(TokenSource::Certificate),
        _ => {
            // The characters of a token (RFC 9110, 5.6.2).
            let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
            let cookie = name.strip_prefix("cookie:")?;
            let is_name = !cookie.is_empty() && cookie.bytes().all(is_token);
            is_name.then(|| TokenSource::Cookie(cookie.into()))
        }
    }
}

fn duration_ms(
    key: &'static str,
    text: Option<&str>,
    default_ms: u64,
    (min_ms, max_ms): (u64, u64),
) -> Result<u64, AuthConfigError> {
    let Some(text) = text else {
        return Ok(default_ms);
    };
    let parsed = parse_ms(text).filter(|ms| (min_ms..=max_ms).contains(ms));
    parsed.ok_or_else(|| AuthConfigError::Duration {
        key,
        value: text.to_owned(),
        range: match key {
            "skew" => "of at most 120 seconds",
            "refresh" => "from 1 to 60 minutes",
            _ => "from 1 minute to 30 days",
        },
    })
}

impl IssuerConfig {
    fn new(raw: &RawIssuer) -> Result<Self, AuthConfigError> {
        if raw.issuer.is_empty() {
            return Err(AuthConfigError::NoIssuerName);
        }
        let issuer = || raw.issuer.clone();
        let audience = raw.audience.as_ref().map(OneOrMany::as_slice);
        let audience = audience.unwrap_or_default();
        if audience.is_empty() || audience.iter().any(String::is_empty) {
            return Err(AuthConfigError::NoAudience(issuer()));
        }
        let keys = key_location(raw)?;
        let default = RotationLimits::default();
        let (refresh, stale) = (raw.refresh.as_deref(), raw.max_stale.as_deref());
        let hour_ms = 3_600_000;
        Ok(Self {
            issuer: raw.issuer.as_str().into(),
            audience: audience.iter().map(|text| text.as_str().into()).collect(),
            algorithms: algorithms(raw, &keys)?,
            keys,
            ca_file: raw.ca_file.as_deref().map(Into::into),
            strict_type: raw.strict_type,
            rotation: RotationLimits {
                refresh_ms: duration_ms("refresh", refresh, default.refresh_ms, (60_000, hour_ms))?,
                stale_ms: {
                    let range = (60_000, 30 * 24 * hour_ms);
                    duration_ms("max_stale", stale, default.stale_ms, range)?
                },
                ..default
            },
        })
    }
}

fn key_location(raw: &RawIssuer) -> Result<KeyLocation, AuthConfigError> {
    let url = |key, text: &str| {
        SafeUrl::parse(text).map_err(|error| AuthConfigError::Url {
            issuer: raw.issuer.clone(),
            key,
            error,
        })
    };
    let (keys, jwks_url) = (raw.keys.as_deref(), raw.jwks_url.as_deref());
    let files = [&raw.jwks_file, &raw.pem_file, &raw.secret_file];
    let [jwks_file, pem_file, secret_file] = files.map(Option::as_deref);
    match (keys, jwks_url, jwks_file, pem_file, secret_file) {
        (Some("discovery"), None, None, None, None) => {
            let issuer = url("issuer", &raw.issuer)?;
            Ok(KeyLocation::Discovery(discovery_url(&issuer)))
        }
        (None, Some(text), None, None, None) => Ok(KeyLocation::Url(url("jwks_url", text)?)),
        (None, None, Some(file), None, None) => Ok(KeyLocation::KeySetFile(file.into())),
        (None, None, None, Some(file), None) => Ok(KeyLocation::PemFile(file.into())),
        (None, None, None, None, Some(file)) => Ok(KeyLocation::SecretFile(file.into())),
        _ => Err(AuthConfigError::KeyLocation(raw.issuer.clone())),
    }
}

/// Returns the algorithms of an issuer. HS256 is for issuers that have nothing but a secret, so
/// that no public key can serve as one.
fn algorithms(raw: &RawIssuer, keys: &KeyLocation) -> Result<AlgorithmSet, AuthConfigError> {
    let has_secret = matches!(keys, KeyLocation::SecretFile(_));
    let Some(names) = &raw.algorithms else {
        let public = [Algorithm::Rs256, Algorithm::Es256];
        let default: &[_] = if has_secret {
            &[Algorithm::Hs256]
        } else {
            &public
        };
        return Ok(default.iter().copied().collect());
    };
    let mut found = Vec::new();
    for name in names {
        found.push(
            Algorithm::from_name(name).ok_or_else(|| AuthConfigError::Algorithm {
                issuer: raw.issuer.clone(),
                name: name.clone(),
                known: Algorithm::ALL.map(Algorithm::name).join(", "),
            })?,
        );
    }
    if found.is_empty() {
        return Err(AuthConfigError::NoAlgorithm(raw.issuer.clone()));
    }
    match found
        .iter()
        .all(|one| (*one == Algorithm::Hs256) == has_secret)
    {
        true => Ok(found.into_iter().collect()),
        false => Err(AuthConfigError::MixedAlgorithms(raw.issuer.clone())),
    }
}
