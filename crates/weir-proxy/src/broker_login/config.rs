//! `[cluster.broker_identity]`: who the proxy is at the brokers.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_net::tls::ClientFiles;

use super::credentials::{CredentialsError, IdentityMode};
use super::identity::BrokerIdentity;

/// Table `broker_identity` of a cluster.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(crate) struct RawBrokerIdentity {
    /// Identity of connections to brokers.
    mode: RawMode,
    /// File with credentials, readable by its owner only.
    credentials: Option<PathBuf>,
}

/// Identity of connections to brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum RawMode {
    /// That of the client, whose login passes; as without this table.
    Pass,
    /// The proxy's own, for all clients.
    One,
    /// One that belongs to the client's principal.
    Swap,
    /// The client's principal, with a delegation token that the proxy creates.
    Delegate,
}

/// Credentials that cannot be configured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BrokerIdentityError {
    #[error("credentials is missing: name a file with the credentials")]
    NoFile,
    #[error("credentials: has no effect with mode = \"pass\": remove it")]
    Unused,
    #[error(
        "mode = \"{0}\" needs principals: add [cluster.identity] or \
         [cluster.certificate_principals]"
    )]
    NoPrincipals(&'static str),
    #[error("credentials: {0}")]
    Credentials(#[from] CredentialsError),
}

impl RawBrokerIdentity {
    /// Checks the table and reads the credentials. Paths start at `dir`. `upstream_tls` are the
    /// files of TLS with brokers, and `server` is one of them. Returns `None` for `pass`.
    pub(crate) fn open(
        self,
        has_principals: bool,
        upstream_tls: Option<ClientFiles>,
        server: &str,
        dir: &Path,
    ) -> Result<Option<BrokerIdentity>, BrokerIdentityError> {
        let mode = match (self.mode, &self.credentials) {
            (RawMode::Pass, None) => return Ok(None),
            (RawMode::Pass, Some(_)) => return Err(BrokerIdentityError::Unused),
            (_, None) => return Err(BrokerIdentityError::NoFile),
            (RawMode::One, _) => IdentityMode::One,
            (RawMode::Swap, _) => IdentityMode::Swap,
            (RawMode::Delegate, _) => IdentityMode::Delegate,
        };
        if mode != IdentityMode::One && !has_principals {
            return Err(BrokerIdentityError::NoPrincipals(mode.as_str()));
        }
        let path = dir.join(self.credentials.unwrap_or_default());
        let identity = BrokerIdentity::open(mode, path, upstream_tls, server)?;
        Ok(Some(identity))
    }
}
