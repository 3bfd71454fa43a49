//! `[cluster.identity]`: how clients log in at the proxy.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_sasl::server::Mechanism;

use super::ClusterLogins;
use super::cluster_logins::{LoginLimits, UserStoreError};

/// Table `identity` of a cluster.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawIdentity {
    /// SASL mechanisms of clients: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512.
    mechanisms: Vec<String>,
    /// File with users, written by `weir proxy user`.
    users: PathBuf,
    /// Allows PLAIN without TLS.
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
    #[error("mechanisms: \"{0}\" is not supported: use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512")]
    Mechanism(String),
    #[error("mechanisms: \"{0}\" is listed twice")]
    Duplicate(String),
    #[error(
        "mechanisms: PLAIN sends passwords without encryption: add [cluster.tls], or set \
         allow_plain_text = true"
    )]
    PlainText,
    #[error("{key} = {value}: use {min} to {max}")]
    Range {
        key: &'static str,
        value: u64,
        min: u64,
        max: u64,
    },
    #[error("users: {0}")]
    Users(#[from] UserStoreError),
}

impl RawIdentity {
    /// Checks the table and reads the users. Paths start at `dir`.
    pub(crate) fn open(self, has_tls: bool, dir: &Path) -> Result<ClusterLogins, IdentityError> {
        let mut mechanisms = Vec::new();
        for name in self.mechanisms {
            let mechanism = Mechanism::find(&name).filter(|one| *one != Mechanism::OAuthBearer);
            let Some(mechanism) = mechanism else {
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
        if mechanisms.contains(&Mechanism::Plain) && !has_tls && !self.allow_plain_text {
            return Err(IdentityError::PlainText);
        }
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
            dir.join(self.users),
            limits,
        )?)
    }
}
