//! Encryption and login of the connections that Weir opens to brokers itself, without librdkafka.
//! Built once from a cluster's settings and shared by all its connections.

mod error;
#[cfg(test)]
pub(crate) mod test_broker;
mod tls;
mod verifier;

use std::fmt;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use weir_sasl::client::{LoginError, LoginMethod, SaslExchange};
use weir_security::Security;

pub use error::{SecurityError, TlsFailure};
pub(crate) use tls::client_config;

/// Encryption and login, ready for use.
#[derive(Clone)]
pub(crate) struct BrokerSecurity {
    tls: Option<Arc<ClientConfig>>,
    login: Option<LoginMethod>,
}

impl fmt::Debug for BrokerSecurity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrokerSecurity")
            .field("tls", &self.tls.is_some())
            .field("login", &self.login.is_some())
            .finish()
    }
}

impl BrokerSecurity {
    /// Prepares the settings of a cluster.
    ///
    /// # Errors
    /// Kerberos, which only librdkafka has, and keys or cipher suites that rustls does not support.
    pub(crate) fn new(security: &Security) -> Result<Self, SecurityError> {
        let tls = security.tls.as_ref().map(client_config).transpose()?;
        let login = security.sasl.as_ref().map(LoginMethod::new).transpose()?;
        Ok(Self { tls, login })
    }

    /// Returns the TLS configuration with the server name of `host`, or `None` without encryption.
    pub(crate) fn tls(
        &self,
        host: &str,
    ) -> Result<Option<(Arc<ClientConfig>, ServerName<'static>)>, TlsFailure> {
        let Some(config) = &self.tls else {
            return Ok(None);
        };
        let name = host.trim_end_matches('.').to_owned();
        let name = ServerName::try_from(name).map_err(|_| TlsFailure::InvalidHost {
            host: host.to_owned(),
        })?;
        Ok(Some((Arc::clone(config), name)))
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    pub(crate) fn needs_login(&self) -> bool {
        self.login.is_some()
    }

    /// Begins a login at `host`, or returns `None` without login. Blocks while a token is read.
    pub(crate) fn begin_login(&self, host: &str) -> Result<Option<SaslExchange>, LoginError> {
        self.login
            .as_ref()
            .map(|login| login.begin(host))
            .transpose()
    }

    /// Returns `true` if [`begin_login`](Self::begin_login) may block.
    pub(crate) fn may_block(&self) -> bool {
        self.login.as_ref().is_some_and(LoginMethod::may_block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn plaintext_has_neither_encryption_nor_login() {
        let security = BrokerSecurity::new(&Security::default()).expect("valid");
        assert!(!security.is_encrypted() && !security.needs_login() && !security.may_block());
        assert_eq!(security.tls("host").map(|it| it.is_some()), Ok(false));
        assert!(security.begin_login("host").is_ok_and(|it| it.is_none()));
    }
}
