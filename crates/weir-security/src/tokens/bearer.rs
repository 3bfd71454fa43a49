//! A bearer token and its SASL message.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;

use super::encode::timestamp;
use super::error::TokenError;
use crate::secret::Secret;

/// Token of the mechanism OAUTHBEARER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BearerToken {
    /// The token itself.
    pub token: Secret,
    /// Name of the client, for logs; brokers take it from the token.
    pub principal: String,
    /// End of validity.
    pub expires: SystemTime,
    /// SASL extensions: names and values.
    pub extensions: Vec<(String, String)>,
}

/// Claims of a JSON Web Token that a client needs. Brokers verify the token, clients do not.
#[derive(Default, Deserialize)]
struct Claims {
    exp: Option<f64>,
    sub: Option<String>,
}

impl BearerToken {
    /// Returns the first message of the client (RFC 7628).
    pub fn client_response(&self) -> Vec<u8> {
        let mut message = format!("n,,\x01auth=Bearer {}", self.token.reveal());
        for (name, value) in &self.extensions {
            message.push('\x01');
            message.push_str(name);
            message.push('=');
            message.push_str(value);
        }
        message.push_str("\x01\x01");
        message.into_bytes()
    }

    /// Checks a token. It is valid until its claim `exp` and until `expires`; a token with neither
    /// is read again after five minutes.
    pub(super) fn parse(
        token: &str,
        source_name: &str,
        expires: Option<SystemTime>,
        principal: &str,
        extensions: &[(String, String)],
    ) -> Result<Self, TokenError> {
        let source_name = source_name.to_owned();
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
        match token {
            "" => return Err(TokenError::Empty { source_name }),
            token if token.len() > BYTES_MAX => {
                let max = BYTES_MAX;
                return Err(TokenError::TooLong { source_name, max });
            }
            // Any other character could end the token and begin an extension.
            token if !token.bytes().all(allowed) => {
                return Err(TokenError::Characters { source_name });
            }
            _ => {}
        }
        let claims = claims(token);
        let exp = claims.exp.filter(|exp| (0.0..=SECONDS_MAX).contains(exp));
        let exp = exp.map(|exp| UNIX_EPOCH + Duration::from_secs_f64(exp));
        let now = SystemTime::now();
        let ends = [exp, expires].into_iter().flatten().min();
        let expires = ends.unwrap_or(now + REREAD_INTERVAL);
        if expires <= now {
            let date = timestamp(expires).map_or_else(|_| String::new(), |it| it.to_string());
            return Err(TokenError::Expired { source_name, date });
        }
        let subject = claims.sub.filter(|it| !it.is_empty() && !it.contains('\0'));
        let principal = subject.unwrap_or_else(|| principal.to_owned());
        Ok(Self {
            token: Secret::new(token),
            principal: if principal.is_empty() {
                "weir".to_owned()
            } else {
                principal
            },
            expires,
            extensions: extensions.to_vec(),
        })
    }
}

/// Returns the claims of a JSON Web Token, or none of another token.
fn claims(token: &str) -> Claims {
    let read = || {
        let mut parts = token.split('.').skip(1);
        let body = URL_SAFE_NO_PAD
            .decode(parts.next()?.trim_end_matches('='))
            .ok()?;
        parts.next()?;
        serde_json::from_slice(&body).ok()
    };
    read().unwrap_or_default()
}

/// Kafka's brokers accept requests of at most 512 KiB before the login.
const BYTES_MAX: usize = 64 << 10;
const REREAD_INTERVAL: Duration = Duration::from_secs(300);
/// End of the year 9999.
const SECONDS_MAX: f64 = 253_402_300_799.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn jwt(claims: &str) -> String {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.c2ln", encode("{\"alg\":\"RS256\"}"), encode(claims))
    }

    fn parse(token: &str) -> Result<BearerToken, TokenError> {
        BearerToken::parse(token, "a test", None, "", &[])
    }

    #[test]
    fn claims_give_principal_and_expiry() {
        let token = parse(&jwt("{\"exp\":4102444800,\"sub\":\"alice\"}")).expect("valid");
        assert_eq!(token.principal, "alice");
        assert_eq!(
            token.expires,
            UNIX_EPOCH + Duration::from_secs(4_102_444_800)
        );
        let opaque = parse("abc").expect("valid");
        assert_eq!(opaque.principal, "weir");
        assert!(opaque.expires > SystemTime::now() + REREAD_INTERVAL / 2);
        let odd = parse(&jwt("{\"exp\":-1e300}")).expect("an impossible claim is ignored");
        assert!(odd.expires > SystemTime::now());
        let sooner = SystemTime::now() + Duration::from_secs(7);
        let token = jwt("{\"exp\":4102444800}");
        let token = BearerToken::parse(&token, "a test", Some(sooner), "app", &[]);
        let token = token.expect("valid");
        assert_eq!((token.expires, &*token.principal), (sooner, "app"));
    }

    #[test]
    fn invalid_tokens_are_rejected_without_showing_them() {
        let error = |token: &str| parse(token).expect_err(token).to_string();
        assert_eq!(
            error(&jwt("{\"exp\":1}")),
            "the token of a test expired at 1970-01-01T00:00:01Z: provide a new one"
        );
        assert_eq!(error(""), "the token of a test is empty");
        let injected = error("s3cret\x01admin=true");
        assert!(
            injected.contains("characters") && !injected.contains("s3cret"),
            "{injected}"
        );
        assert!(error(&"a".repeat(BYTES_MAX + 1)).contains("longer than"));
    }

    #[test]
    fn extensions_are_part_of_the_message() {
        let extensions = [("logicalCluster".to_owned(), "lkc-1".to_owned())];
        let token = BearerToken::parse("abc", "a test", None, "", &extensions).expect("valid");
        assert_eq!(
            token.client_response(),
            b"n,,\x01auth=Bearer abc\x01logicalCluster=lkc-1\x01\x01"
        );
        assert!(!format!("{token:?}").contains("abc"));
    }
}
