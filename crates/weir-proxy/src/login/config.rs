//! `[cluster.identity]`: how clients log in at the proxy.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_sasl::server::Mechanism;

use super::ClusterLogins;
use super::cluster_logins::{LoginLimits, UserStoreError};
use super::tokens::{RawTokens, TokenLogins, TokensError};

/// Table `identity` of a cluster.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawIdentity {
    /// SASL mechanisms of clients: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.
    mechanisms: Vec<String>,
    /// File with users of PLAIN and SCRAM, written by `weir proxy user`.
    users: Option<PathBuf>,
    /// Tokens of OAUTHBEARER.
    tokens: Option<RawTokens>,
    /// Allows PLAIN and OAUTHBEARER without TLS.
    #[serde(default)]
    allow_plain_text: bool,
    /// Milliseconds after which clients must log in again; 0 (default): never.
    #[serde(default)]
    session_ms: u64,
    /// Milliseconds by which the response to a failed login is delayed, by default 100.
    #[serde(default = "failed_delay_ms")]
    failed_delay_ms: u64,
    /// Milliseconds from the start of a connection to the end of its login, by default 30,000.
    #[serde(default = "login_timeout_ms")]
    login_timeout_ms: u64,
}

fn failed_delay_ms() -> u64 {
    100
}

fn login_timeout_ms() -> u64 {
    30_000
}

/// Logins that cannot be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IdentityError {
    #[error("mechanisms = []: name at least one")]
    NoMechanism,
    #[error(
        "mechanisms: \"{0}\" is not supported: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER"
    )]
    Mechanism(String),
    #[error("mechanisms: \"{0}\" is listed twice")]
    Duplicate(String),
    #[error(
        "mechanisms: PLAIN and OAUTHBEARER send passwords and tokens without encryption: add \
         [cluster.tls], or set allow_plain_text = true"
    )]
    PlainText,
    #[error("{key} = {value}: use {min} to {max}")]
    Range {
        key: &'static str,
        value: u64,
        min: u64,
        max: u64,
    },
    #[error("{key} is missing: mechanism {mechanism} needs it")]
    Missing {
        key: &'static str,
        mechanism: &'static str,
    },
    #[error("{0} has no effect with these mechanisms: remove it")]
    Unused(&'static str),
    #[error("users: {0}")]
    Users(#[from] UserStoreError),
    #[error("tokens: {0}")]
    Tokens(#[from] TokensError),
}

impl RawIdentity {
    /// Checks the table and reads the users. Paths start at `dir`.
    pub(crate) fn open(self, has_tls: bool, dir: &Path) -> Result<ClusterLogins, IdentityError> {
        let mut mechanisms = Vec::new();
        for name in self.mechanisms {
            let Some(mechanism) = Mechanism::find(&name) else {
                return Err(IdentityError::Mechanism(name));
            };
            if mechanisms.contains(&mechanism) {
                return Err(IdentityError::Duplicate(name));
            }
            mechanisms.push(mechanism);
        }
        if mechanisms.is_empty() {
            return Err(IdentityError::NoMechanism);
        }
        let (with_tokens, with_users): (Vec<Mechanism>, Vec<_>) = mechanisms
            .iter()
            .partition(|one| **one == Mechanism::OAuthBearer);
        let is_secret = !with_tokens.is_empty() || with_users.contains(&Mechanism::Plain);
        if is_secret && !has_tls && !self.allow_plain_text {
            return Err(IdentityError::PlainText);
        }
        needs("users", with_users.first(), self.users.is_some())?;
        needs("tokens", with_tokens.first(), self.tokens.is_some())?;
        let tokens = self.tokens.map(|tokens| TokenLogins::open(tokens, dir));
        let tokens = tokens.transpose()?;
        for (key, value, (min, max)) in [
            // Clients log in again at 85 % of it, and not more than once a second.
            ("session_ms", self.session_ms, (0, 31_536_000_000)),
            ("failed_delay_ms", self.failed_delay_ms, (0, 10_000)),
            ("login_timeout_ms", self.login_timeout_ms, (1_000, 600_000)),
        ] {
            if !(min..=max).contains(&value) {
                return Err(IdentityError::Range {
                    key,
                    value,
                    min,
                    max,
                });
            }
        }
        let limits = LoginLimits {
            session_ms: Some(self.session_ms).filter(|ms| *ms > 0),
            failed_delay_ms: self.failed_delay_ms,
            timeout_ms: self.login_timeout_ms,
        };
        Ok(ClusterLogins::open(
            mechanisms,
            self.users.map(|path| dir.join(path)),
            tokens,
            limits,
        )?)
    }
}

/// Checks that a key is set if and only if there is a mechanism that needs it.
fn needs(
    key: &'static str,
    mechanism: Option<&Mechanism>,
    is_set: bool,
) -> Result<(), IdentityError> {
    match (mechanism, is_set) {
        (Some(mechanism), false) => Err(IdentityError::Missing {
            key,
            mechanism: mechanism.name(),
        }),
        (None, true) => Err(IdentityError::Unused(key)),
        _ => Ok(()),
    }
}
