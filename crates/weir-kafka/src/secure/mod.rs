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
use weir_security::{
    AwsCredentialSource, Login, SaslSettings, ScramHash, Security, TokenError, TokenSource,
};

pub use error::{SecurityError, TlsFailure};
pub(crate) use tls::client_config;

use crate::sasl::{LoginError, SaslExchange, ScramUser, random_nonce};

/// Encryption and login, ready for use.
#[derive(Clone)]
pub(crate) struct BrokerSecurity {
    tls: Option<Arc<ClientConfig>>,
    login: Option<LoginMethod>,
}

#[derive(Clone)]
enum LoginMethod {
    Plain(Login),
    Scram(ScramHash, Arc<ScramUser>),
    OAuthBearer(TokenSource),
    AwsMskIam(AwsCredentialSource),
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
        let exchange = match &self.login {
            None => return Ok(None),
            Some(LoginMethod::OAuthBearer(source)) => {
                let token = source.token();
                let token = token.map_err(|error| no_token("OAUTHBEARER", error))?;
                SaslExchange::bearer(token.client_response())
            }
            Some(LoginMethod::AwsMskIam(source)) => {
                let signed = source.client_response(host);
                let signed = signed.map_err(|error| no_token("AWS_MSK_IAM", error))?;
                SaslExchange::aws_msk_iam(signed)
            }
            Some(LoginMethod::Plain(login)) => SaslExchange::plain(login),
            Some(LoginMethod::Scram(hash, user)) => {
                SaslExchange::scram(hash.mechanism(), Arc::clone(user), random_nonce()?)
            }
        };
        Ok(Some(exchange))
    }

    /// Returns `true` if [`begin_login`](Self::begin_login) may block.
    pub(crate) fn may_block(&self) -> bool {
        match &self.login {
            None | Some(LoginMethod::Plain(_) | LoginMethod::Scram(..)) => false,
            Some(LoginMethod::OAuthBearer(source)) => source.cached().is_none(),
            Some(LoginMethod::AwsMskIam(_)) => true,
        }
    }
}

impl LoginMethod {
    fn new(settings: &SaslSettings) -> Result<Self, SecurityError> {
        Ok(match settings {
            SaslSettings::Plain(login) => {
                let texts = [login.username.as_str(), login.password.reveal()];
                if texts.iter().any(|text| text.contains('\0')) {
                    return Err(SecurityError::NullCharacter { mechanism: "PLAIN" });
                }
                Self::Plain(login.clone())
            }
            SaslSettings::Scram(hash, login) => {
                Self::Scram(*hash, Arc::new(ScramUser::new(*hash, login.clone())))
            }
            SaslSettings::OAuthBearer(source) => Self::OAuthBearer(source.clone()),
            SaslSettings::AwsMskIam(source) => Self::AwsMskIam(source.clone()),
            SaslSettings::Kerberos(_) => return Err(SecurityError::Kerberos),
        })
    }
}

fn no_token(mechanism: &'static str, error: TokenError) -> LoginError {
    LoginError::Token { mechanism, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_security::{KerberosSettings, Secret};

    fn with_login(sasl: SaslSettings) -> Result<BrokerSecurity, SecurityError> {
        BrokerSecurity::new(&Security {
            tls: None,
            sasl: Some(sasl),
        })
    }

    fn login(password: &str) -> Login {
        Login {
            username: "user".to_owned(),
            password: Secret::new(password),
        }
    }

    #[test]
    fn plaintext_has_neither_encryption_nor_login() {
        let security = BrokerSecurity::new(&Security::default()).expect("valid");
        assert!(!security.is_encrypted() && !security.needs_login() && !security.may_block());
        assert_eq!(security.tls("host").map(|it| it.is_some()), Ok(false));
        assert!(security.begin_login("host").is_ok_and(|it| it.is_none()));
    }

    #[test]
    fn kerberos_and_null_characters_are_rejected() {
        let kerberos = KerberosSettings {
            service_name: "kafka".to_owned(),
            principal: None,
            keytab: None,
        };
        let error = with_login(SaslSettings::Kerberos(kerberos)).expect_err("refused");
        assert_eq!(error, SecurityError::Kerberos);
        let error = with_login(SaslSettings::Plain(login("a\0b"))).expect_err("refused");
        assert!(!error.to_string().contains("a\0b"), "{error}");
    }

    #[test]
    fn debug_shows_no_password() {
        let security = with_login(SaslSettings::Plain(login("pencil"))).expect("valid");
        assert!(!format!("{security:?}").contains("pencil"));
        assert!(!security.may_block());
        let exchange = security.begin_login("host").expect("valid").expect("login");
        assert_eq!(exchange.mechanism(), "PLAIN");
    }
}
