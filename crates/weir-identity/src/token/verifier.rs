//! Validation of tokens, in the order of the rules: form, algorithm, issuer, key, signature,
//! audience, times, user, revocation.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::error::TokenError;
use super::unverified::UnverifiedToken;
use crate::claims::{ClaimPath, Claims};
use crate::config::{AuthConfig, IssuerConfig};
use crate::identity::{AuthMethod, IdentityParts, UserIdentity};
use crate::keys::{KeyLookupError, KeySet, VerificationKey};
use crate::revocation::Revocations;

/// Identity and claims of a valid token.
#[derive(Debug, Clone, PartialEq)]
pub struct IdentifiedClient {
    /// Issuer, user and validity.
    pub identity: Arc<UserIdentity>,
    /// Claims, for rules.
    pub claims: Claims,
}

impl IdentifiedClient {
    /// Returns the identity and claims of a client whom a remote adapter identifies, without claims
    /// of a token. Returns `None` if the user name is too long.
    pub fn by_adapter(user: Option<&str>) -> Option<Arc<Self>> {
        let user = user.unwrap_or_default();
        let identity = match user.is_empty() {
            true => UserIdentity::anonymous(),
            false => {
                let parts = IdentityParts {
                    user,
                    ..IdentityParts::default()
                };
                UserIdentity::new(Arc::from(""), AuthMethod::Adapter, parts)?
            }
        };
        let mut claims = Claims::default();
        claims.set_identity(&identity);
        Some(Arc::new(Self {
            identity: Arc::new(identity),
            claims,
        }))
    }
}

/// Validates tokens of the configured issuers. It never fetches anything: the caller passes the
/// keys that it has.
#[derive(Debug)]
pub struct TokenVerifier {
    issuers: Vec<IssuerConfig>,
    user_claim: ClaimPath,
    tenant_claim: Option<ClaimPath>,
    skew_ms: u64,
}

impl TokenVerifier {
    /// Creates a verifier for the issuers of a configuration.
    pub fn new(config: &AuthConfig) -> Self {
        Self {
            issuers: config.issuers.clone(),
            user_claim: config.user_claim.clone(),
            tenant_claim: config.tenant_claim.clone(),
            skew_ms: config.skew_ms,
        }
    }

    /// Returns the time for which a token is accepted after its end, in milliseconds.
    pub fn skew_ms(&self) -> u64 {
        self.skew_ms
    }

    /// Returns the issuers; errors name them by position.
    pub fn issuers(&self) -> &[IssuerConfig] {
        &self.issuers
    }

    /// Validates a token at `now_ms`, Unix time in milliseconds. `keys` has the key sets of the
    /// issuers, in their order; `None` where none is available.
    pub fn verify(
        &self,
        token: &str,
        keys: &[Option<Arc<KeySet>>],
        now_ms: u64,
    ) -> Result<IdentifiedClient, TokenError> {
        let token = UnverifiedToken::parse(token)?;
        let (number, issuer) = self.select_issuer(&token)?;
        check_type(&token, issuer)?;
        let keys = keys.get(number).and_then(Option::as_deref);
        let keys = keys.ok_or(TokenError::KeysUnavailable { issuer: number })?;
        let key = select_key(&token, keys, number)?;
        if !key.verify(token.algorithm, token.signed.as_bytes(), &token.signature) {
            return Err(TokenError::Signature);
        }
        check_audience(&token.claims, issuer)?;
        let times = self.check_times(&token.claims, now_ms)?;
        self.identify(token.claims, issuer, times)
    }

    /// Checks a valid token again, for example one from a cache: its end, the user name of the
    /// request and the revocations.
    pub fn recheck(
        &self,
        identity: &UserIdentity,
        expected_user: Option<&str>,
        revocations: &Revocations,
        now_ms: u64,
    ) -> Result<(), TokenError> {
        if now_ms >= identity.expires_ms().saturating_add(self.skew_ms) {
            return Err(TokenError::Expired);
        }
        // An empty user name is as good as none.
        let expected_user = expected_user.filter(|user| !user.is_empty());
        if expected_user.is_some_and(|user| user != identity.user()) {
            return Err(TokenError::OtherUser);
        }
        match revocations.is_revoked(identity) {
            true => Err(TokenError::Revoked),
            false => Ok(()),
        }
    }

    /// Returns the issuer with exactly this name, if it allows the algorithm.
    fn select_issuer(
        &self,
        token: &UnverifiedToken<'_>,
    ) -> Result<(usize, &IssuerConfig), TokenError> {
        let name = token.issuer()?;
        let mut issuers = self.issuers.iter().enumerate();
        let found = issuers.find(|(_, issuer)| &*issuer.issuer == name);
        let (number, issuer) = found.ok_or(TokenError::Issuer)?;
        match issuer.algorithms.contains(token.algorithm) {
            true => Ok((number, issuer)),
            false => Err(TokenError::Algorithm),
        }
    }

    fn check_times(
        &self,
        claims: &Map<String, Value>,
        now_ms: u64,
    ) -> Result<TokenTimes, TokenError> {
        let expires_ms = time_ms(claims, "exp")?.ok_or(TokenError::Missing { name: "exp" })?;
        let not_before_ms = time_ms(claims, "nbf")?;
        let issued_ms = time_ms(claims, "iat")?;
        if now_ms >= expires_ms.saturating_add(self.skew_ms) {
            return Err(TokenError::Expired);
        }
        let latest_ms = now_ms.saturating_add(self.skew_ms);
        if not_before_ms.is_some_and(|at_ms| at_ms > latest_ms) {
            return Err(TokenError::NotYetValid);
        }
        if issued_ms.is_some_and(|at_ms| at_ms > latest_ms) {
            return Err(TokenError::IssuedInFuture);
        }
        Ok(TokenTimes {
            expires_ms,
            issued_ms,
        })
    }

    fn identify(
        &self,
        members: Map<String, Value>,
        issuer: &IssuerConfig,
        times: TokenTimes,
    ) -> Result<IdentifiedClient, TokenError> {
        let jti = match members.get("jti") {
            None => None,
            Some(Value::String(jti)) => Some(jti.clone()),
            Some(_) => return Err(TokenError::Claim { name: "jti" }),
        };
        let mut claims = Claims::of_token(members);
        let text = |path: &ClaimPath| {
            let text = claims.get(path).and_then(Value::as_str);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let user = text(&self.user_claim).ok_or(TokenError::User)?;
        let tenant = self.tenant_claim.as_ref().and_then(text);
        let parts = IdentityParts {
            user: &user,
            tenant: tenant.as_deref(),
            token_id: jti.as_deref(),
            expires_ms: Some(times.expires_ms),
            issued_ms: times.issued_ms,
        };
        let identity = UserIdentity::new(Arc::clone(&issuer.issuer), AuthMethod::Jwt, parts);
        let identity = identity.ok_or(TokenError::User)?;
        claims.set_identity(&identity);
        Ok(IdentifiedClient {
            identity: Arc::new(identity),
            claims,
        })
    }
}

#[derive(Clone, Copy)]
struct TokenTimes {
    expires_ms: u64,
    issued_ms: Option<u64>,
}

fn check_type(token: &UnverifiedToken<'_>, issuer: &IssuerConfig) -> Result<(), TokenError> {
    let is = |name: &str| {
        let own = token.token_type.as_deref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(name))
    };
    let is_access_token = is("at+jwt") || is("application/at+jwt");
    let is_plain = token.token_type.is_none() || is("JWT");
    match is_access_token || (is_plain && !issuer.strict_type) {
        true => Ok(()),
        false => Err(TokenError::Type),
    }
}

fn select_key<'a>(
    token: &UnverifiedToken<'_>,
    keys: &'a KeySet,
    issuer: usize,
) -> Result<&'a VerificationKey, TokenError> {
    let found = keys.find(token.key_id.as_deref(), token.algorithm);
    found.map_err(|error| match error {
        KeyLookupError::UnknownId => TokenError::UnknownKey { issuer },
        KeyLookupError::Ambiguous => TokenError::AmbiguousKey,
        KeyLookupError::Algorithm => TokenError::KeyAlgorithm {
            algorithm: token.algorithm,
        },
    })
}

fn check_audience(claims: &Map<String, Value>, issuer: &IssuerConfig) -> Result<(), TokenError> {
    let name = "aud";
    let is_ours = |value: &Value| {
        let text = value.as_str();
        text.is_some_and(|text| issuer.audience.iter().any(|own| **own == *text))
    };
    let found = match claims.get(name) {
        None => return Err(TokenError::Missing { name }),
        Some(value @ Value::String(_)) => is_ours(value),
        Some(Value::Array(values)) if values.iter().all(Value::is_string) => {
            values.iter().any(is_ours)
        }
        Some(_) => return Err(TokenError::Claim { name }),
    };
    match found {
        true => Ok(()),
        false => Err(TokenError::Audience),
    }
}

/// Returns a time in milliseconds, rounded down. Negative and impossible ones are an error.
fn time_ms(claims: &Map<String, Value>, name: &'static str) -> Result<Option<u64>, TokenError> {
    /// The last second of the year 9999.
    const SECONDS_MAX: f64 = 253_402_300_799.0;
    let Some(value) = claims.get(name) else {
        return Ok(None);
    };
    let seconds = value.as_f64().filter(|at| (0.0..=SECONDS_MAX).contains(at));
    let seconds = seconds.ok_or(TokenError::Claim { name })?;
    Ok(Some((seconds * 1_000.0) as u64))
}
