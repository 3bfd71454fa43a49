//! Messages of one mechanism, from the client's first to the server's last.

use weir_security::Login;

use super::error::{LoginError, peer_text};
use super::scram::{ScramExchange, ScramUser};
use std::sync::Arc;

/// Exchange of one login, client side.
pub struct SaslExchange {
    mechanism: &'static str,
    /// First message of the client, until it is sent.
    first: Vec<u8>,
    kind: ExchangeKind,
}

enum ExchangeKind {
    /// The client sends one message; the server sends nothing back.
    Plain,
    Scram(Box<ScramExchange>),
    /// As PLAIN, but before a rejection the server sends its reason, which `Some` contains.
    Bearer(Option<String>),
    /// The client sends one message; the server confirms it.
    Signed,
    Complete,
}

impl SaslExchange {
    /// Begins an exchange of PLAIN (RFC 4616).
    pub fn plain(login: &Login) -> Self {
        let (user, password) = (&login.username, login.password.reveal());
        let first = format!("\0{user}\0{password}").into_bytes();
        Self::new("PLAIN", first, ExchangeKind::Plain)
    }

    /// Begins an exchange of SCRAM; `nonce` is from [`random_nonce`](crate::random::random_nonce).
    pub fn scram(mechanism: &'static str, user: Arc<ScramUser>, nonce: String) -> Self {
        let scram = ScramExchange::new(user, nonce);
        let first = scram.first_message();
        Self::new(mechanism, first, ExchangeKind::Scram(Box::new(scram)))
    }

    /// Begins an exchange of OAUTHBEARER (RFC 7628) with the client's message.
    pub fn bearer(first: Vec<u8>) -> Self {
        Self::new("OAUTHBEARER", first, ExchangeKind::Bearer(None))
    }

    /// Begins an exchange of AWS_MSK_IAM with the client's signed message.
    pub fn aws_msk_iam(first: Vec<u8>) -> Self {
        Self::new("AWS_MSK_IAM", first, ExchangeKind::Signed)
    }

    fn new(mechanism: &'static str, first: Vec<u8>, kind: ExchangeKind) -> Self {
        Self {
            mechanism,
            first,
            kind,
        }
    }

    /// Returns the name of the mechanism.
    pub fn mechanism(&self) -> &'static str {
        self.mechanism
    }

    /// Returns the client's first message, once.
    pub(crate) fn take_first(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.first)
    }

    /// Returns the response to a message of the server, or `None` if the login is complete.
    ///
    /// # Errors
    /// The server rejected the login, or its message is not valid at this point.
    pub(crate) fn respond(&mut self, message: &[u8]) -> Result<Option<Vec<u8>>, LoginError> {
        let mechanism = self.mechanism;
        match std::mem::replace(&mut self.kind, ExchangeKind::Complete) {
            ExchangeKind::Plain if message.is_empty() => Ok(None),
            ExchangeKind::Bearer(None) if message.is_empty() => Ok(None),
            ExchangeKind::Bearer(None) => {
                self.kind = ExchangeKind::Bearer(Some(token_error(message)));
                // Acknowledges the error; the server then rejects the login.
                Ok(Some(vec![1]))
            }
            ExchangeKind::Bearer(Some(reason)) => Err(LoginError::Rejected { mechanism, reason }),
            ExchangeKind::Signed if !message.is_empty() => Ok(None),
            ExchangeKind::Signed => Err(LoginError::Rejected {
                mechanism,
                reason: "the broker did not confirm the signature".to_owned(),
            }),
            ExchangeKind::Scram(mut scram) => {
                let response = scram.respond(message);
                if matches!(response, Ok(Some(_))) {
                    self.kind = ExchangeKind::Scram(scram);
                }
                response.map_err(|error| LoginError::Scram { mechanism, error })
            }
            ExchangeKind::Plain | ExchangeKind::Complete => {
                Err(LoginError::UnexpectedData { mechanism })
            }
        }
    }

    /// Returns the error of a login that the broker rejected with `reason`.
    pub(super) fn rejected(&self, reason: &str) -> LoginError {
        let detail = match &self.kind {
            ExchangeKind::Bearer(Some(detail)) => detail.as_str(),
            _ => "",
        };
        let reason = match (peer_text(reason), detail) {
            (reason, "") if reason.is_empty() => "no reason given".to_owned(),
            (reason, "") => reason,
            (_, detail) => detail.to_owned(),
        };
        LoginError::Rejected {
            mechanism: self.mechanism,
            reason,
        }
    }
}

/// Returns the text of a server's JSON error (RFC 7628, section 3.2.2).
fn token_error(message: &[u8]) -> String {
    let json = message.get(..message.len().min(ERROR_BYTES_MAX));
    let json: Option<serde_json::Value> = json.and_then(|it| serde_json::from_slice(it).ok());
    let member = |name| json.as_ref()?.get(name)?.as_str();
    let Some(status) = member("status") else {
        return peer_text(&String::from_utf8_lossy(message));
    };
    let mut text = format!("status {status}");
    for (name, label) in [
        ("scope", ", required scope "),
        ("openid-configuration", ", configuration at "),
    ] {
        if let Some(value) = member(name) {
            text.push_str(label);
            text.push_str(value);
        }
    }
    peer_text(&text)
}

const ERROR_BYTES_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::random_nonce;
    use weir_security::{ScramHash, Secret};

    fn login() -> Login {
        Login {
            username: "user".to_owned(),
            password: Secret::new("p"),
        }
    }

    #[test]
    fn plain_sends_user_and_password_once() {
        let mut plain = SaslExchange::plain(&login());
        assert_eq!(plain.take_first(), b"\0user\0p");
        assert!(plain.take_first().is_empty());
        assert_eq!(plain.respond(b""), Ok(None));
        assert!(plain.respond(b"").is_err());
        let mut plain = SaslExchange::plain(&login());
        assert!(plain.respond(b"more").is_err());
    }

    #[test]
    fn bearer_error_is_acknowledged_and_reported() {
        let mut bearer = SaslExchange::bearer(b"n,,\x01auth=Bearer t\x01\x01".to_vec());
        let error =
            br#"{"status":"invalid_token","scope":"a b","openid-configuration":"https://i"}"#;
        assert_eq!(bearer.respond(error), Ok(Some(vec![1])));
        let text = bearer.rejected("Authentication failed").to_string();
        let expected = "OAUTHBEARER login rejected: status invalid_token, required scope a b, \
                        configuration at https://i;";
        assert!(text.starts_with(expected), "{text}");
        let success = bearer.respond(b"").expect_err("error before");
        assert!(matches!(success, LoginError::Rejected { .. }), "{success}");
    }

    #[test]
    fn other_bearer_errors_are_quoted() {
        assert_eq!(token_error(b"{\"status\":7}"), "{\"status\":7}");
        assert_eq!(token_error(b"no\x1bJSON"), "no JSON");
        let long = vec![b'['; 1 << 20];
        assert!(token_error(&long).len() < 1000);
    }

    #[test]
    fn aws_signature_must_be_confirmed() {
        let mut signed = SaslExchange::aws_msk_iam(b"{}".to_vec());
        assert_eq!(signed.respond(b"{\"version\":\"2020_10_22\"}"), Ok(None));
        let mut signed = SaslExchange::aws_msk_iam(b"{}".to_vec());
        assert!(signed.respond(b"").is_err());
    }

    #[test]
    fn scram_completes_only_with_a_signature() {
        let user = Arc::new(ScramUser::new(ScramHash::Sha512, login()));
        let nonce = random_nonce().expect("random");
        let mut scram = SaslExchange::scram("SCRAM-SHA-512", user, nonce.clone());
        let response = scram.respond(format!("r={nonce}x,s=QSXC,i=4096").as_bytes());
        assert!(matches!(response, Ok(Some(_))));
        assert!(scram.respond(b"").is_err());
        assert!(!nonce.contains(','));
        assert_ne!(nonce, random_nonce().expect("random"));
    }
}
