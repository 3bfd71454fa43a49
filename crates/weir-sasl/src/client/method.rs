//! Mechanism and credentials of a client, ready for use.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;
use weir_security::{
    AwsCredentialSource, Login, SaslSettings, ScramHash, Secret, TokenError, TokenSource,
};

use super::error::LoginError;
use super::exchange::SaslExchange;
use super::scram::ScramUser;
use crate::random::random_nonce;

/// Mechanism and credentials. Clones share the keys of SCRAM and the tokens.
#[derive(Debug, Clone)]
pub struct LoginMethod(MethodKind);

#[derive(Debug, Clone)]
enum MethodKind {
    Plain(Login),
    Scram(ScramHash, Arc<ScramUser>),
    OAuthBearer(TokenSource),
    AwsMskIam(AwsCredentialSource),
}

/// Settings of a login that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum UnusableLogin {
    #[error("sasl.mechanism {mechanism}: user name and password must not contain a null character")]
    NullCharacter { mechanism: &'static str },
    #[error(
        "sasl.mechanism GSSAPI: Weir's own connections have no Kerberos; only those of librdkafka \
         do"
    )]
    Kerberos,
}

impl LoginMethod {
    /// Prepares the settings of a login.
    pub fn new(settings: &SaslSettings) -> Result<Self, UnusableLogin> {
        Ok(Self(match settings {
            SaslSettings::Plain(login) => {
                let texts = [login.username.as_str(), login.password.reveal()];
                if texts.iter().any(|text| text.contains('\0')) {
                    return Err(UnusableLogin::NullCharacter { mechanism: "PLAIN" });
                }
                MethodKind::Plain(login.clone())
            }
            SaslSettings::Scram(hash, login) => {
                MethodKind::Scram(*hash, Arc::new(ScramUser::new(*hash, login.clone())))
            }
            SaslSettings::OAuthBearer(source) => MethodKind::OAuthBearer(source.clone()),
            SaslSettings::AwsMskIam(source) => MethodKind::AwsMskIam(source.clone()),
            SaslSettings::Kerberos(_) => return Err(UnusableLogin::Kerberos),
        }))
    }

    /// Returns a login with a delegation token of the brokers: its id and its secret.
    pub fn delegation_token(hash: ScramHash, id: &str, secret: &[u8]) -> Self {
        let login = Login {
            username: id.to_owned(),
            password: Secret::new(STANDARD.encode(secret)),
        };
        Self(MethodKind::Scram(
            hash,
            Arc::new(ScramUser::of_token(hash, login)),
        ))
    }

    /// Returns the hash function of SCRAM; `None` for other mechanisms.
    pub fn scram_hash(&self) -> Option<ScramHash> {
        match &self.0 {
            MethodKind::Scram(hash, _) => Some(*hash),
            _ => None,
        }
    }

    /// Begins a login at `host`. Blocks while a token is read.
    pub fn begin(&self, host: &str) -> Result<SaslExchange, LoginError> {
        Ok(match &self.0 {
            MethodKind::OAuthBearer(source) => {
                let token = source.token();
                let token = token.map_err(|error| no_token("OAUTHBEARER", error))?;
                SaslExchange::bearer(token.client_response())
            }
            MethodKind::AwsMskIam(source) => {
                let signed = source.client_response(host);
                let signed = signed.map_err(|error| no_token("AWS_MSK_IAM", error))?;
                SaslExchange::aws_msk_iam(signed)
            }
            MethodKind::Plain(login) => SaslExchange::plain(login),
            MethodKind::Scram(hash, user) => {
                SaslExchange::scram(hash.mechanism(), Arc::clone(user), random_nonce()?)
            }
        })
    }

    /// Returns `true` if [`begin`](Self::begin) may block.
    pub fn may_block(&self) -> bool {
        match &self.0 {
            MethodKind::Plain(_) | MethodKind::Scram(..) => false,
            MethodKind::OAuthBearer(source) => source.cached().is_none(),
            MethodKind::AwsMskIam(_) => true,
        }
    }
}

fn no_token(mechanism: &'static str, error: TokenError) -> LoginError {
    LoginError::Token { mechanism, error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_security::KerberosSettings;

    fn login(password: &str) -> Login {
        Login {
            username: "user".to_owned(),
            password: Secret::new(password),
        }
    }

    #[test]
    fn kerberos_and_null_characters_are_rejected() {
        let kerberos = KerberosSettings {
            service_name: "kafka".to_owned(),
            principal: None,
            keytab: None,
        };
        let error = LoginMethod::new(&SaslSettings::Kerberos(kerberos)).expect_err("refused");
        assert_eq!(error, UnusableLogin::Kerberos);
        let error = LoginMethod::new(&SaslSettings::Plain(login("a\0b"))).expect_err("refused");
        assert!(!error.to_string().contains("a\0b"), "{error}");
    }

    #[test]
    fn login_with_a_token_says_so() {
        let hash = ScramHash::Sha512;
        let method = LoginMethod::delegation_token(hash, "user", b"secret");
        assert_eq!(method.scram_hash(), Some(hash));
        let first = method.begin("host").expect("valid").take_first();
        assert!(first.starts_with(b"n,,n=user,r=") && first.ends_with(b",tokenauth=true"));
    }

    #[test]
    fn debug_shows_no_password() {
        let method = LoginMethod::new(&SaslSettings::Plain(login("pencil"))).expect("valid");
        assert!(!format!("{method:?}").contains("pencil"));
        assert!(!method.may_block());
        let exchange = method.begin("host").expect("valid");
        assert_eq!(exchange.mechanism(), "PLAIN");
    }
}
