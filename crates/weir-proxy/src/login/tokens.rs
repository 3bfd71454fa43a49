//! Logins with bearer tokens: issuers, keys and claims.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, bounded};
use serde::Deserialize;
use toml::Spanned;
use weir_access::{AccessConfig, AccessError, AuthFailure, Authenticator, RawAccess};
use weir_identity::config::{RawAuth, RawIssuer};
use weir_identity::token::TokenError;
use weir_identity::{ClaimPath, ClaimPathError, Principal};
use weir_net::lock;
use weir_security::Secret;

use super::check::CheckOutcome;

/// Table `tokens` of an identity.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTokens {
    /// Claim with the name of the user, by default sub.
    user_claim: Option<String>,
    /// Claim with the groups of the user, for credentials and access rules; by default none.
    groups_claim: Option<String>,
    /// Allowed difference of clocks, default 30s, at most 120s.
    skew: Option<String>,
    /// Issuers of tokens.
    issuer: Vec<RawIssuer>,
}

/// Tokens that cannot be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokensError {
    #[error("name at least one issuer")]
    NoIssuer,
    #[error("groups_claim: {0}")]
    Groups(#[from] ClaimPathError),
    #[error(transparent)]
    Access(Box<AccessError>),
}

/// Checks tokens with the keys of their issuers.
pub(crate) struct TokenLogins {
    verifier: Arc<Authenticator>,
    groups: Option<ClaimPath>,
    /// Dropped to end the threads that fetch keys.
    _stop: Sender<()>,
    /// Taken when the threads start.
    stopped: Mutex<Option<Receiver<()>>>,
}

impl fmt::Debug for TokenLogins {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenLogins").finish_non_exhaustive()
    }
}

impl TokenLogins {
    /// Checks the table and reads files with keys. Paths start at `dir`.
    pub(super) fn open(raw: RawTokens, dir: &Path) -> Result<Self, TokensError> {
        if raw.issuer.is_empty() {
            return Err(TokensError::NoIssuer);
        }
        let groups = raw.groups_claim.as_deref().map(ClaimPath::parse);
        let groups = groups.transpose()?;
        let auth = RawAuth::of_issuers(raw.issuer, raw.user_claim, raw.skew);
        let access = RawAccess {
            auth: Some(Spanned::new(0..0, auth)),
            ..RawAccess::default()
        };
        let config = AccessConfig::new(access, dir);
        let config = config.map_err(|error| TokensError::Access(Box::new(error)))?;
        let config = config.ok_or(TokensError::NoIssuer)?;
        let (stop, stopped) = bounded(0);
        Ok(Self {
            verifier: Arc::new(Authenticator::new(config, &[])),
            groups,
            _stop: stop,
            stopped: Mutex::new(Some(stopped)),
        })
    }

    /// Starts the threads that fetch keys, once.
    pub(super) fn start(&self) -> std::io::Result<()> {
        match lock(&self.stopped).take() {
            Some(stopped) => self.verifier.start(&stopped, |_| ()),
            None => Ok(()),
        }
    }

    /// Returns the owner of a token, which must be `user` if that is given.
    pub(super) fn check(&self, token: &Secret, user: Option<&str>) -> CheckOutcome {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ms = now.map_or(0, |now| now.as_millis() as u64);
        let verified = match self.verifier.verify(token.reveal(), user, now_ms) {
            Ok(verified) => verified,
            // Its key may come with a fetch that is under way.
            Err(
                AuthFailure::KeysPending | AuthFailure::Token(TokenError::KeysUnavailable { .. }),
            ) => return CheckOutcome::Pending,
            Err(failure) => return CheckOutcome::Wrong(failure.reason()),
        };
        let groups = self.groups.as_ref().map(|path| verified.claims.texts(path));
        let Ok(groups) = groups.transpose() else {
            return CheckOutcome::Wrong("claim_values");
        };
        let groups = groups.unwrap_or_default().into_iter();
        let groups = groups.map(|group| group.into_owned().into_boxed_str());
        let Some(principal) = Principal::user(verified.identity.user()) else {
            return CheckOutcome::Wrong("user");
        };
        let lifetime_ms = verified.identity.expires_ms().saturating_sub(now_ms);
        CheckOutcome::Right(Box::new(principal.with_groups(groups)), Some(lifetime_ms))
    }
}
