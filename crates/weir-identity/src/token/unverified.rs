//! A token that is split and decoded, and not verified.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};

use super::error::{TokenError, TokenPart};
use crate::algorithm::Algorithm;
use crate::json::parse_object;

/// Longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8 * 1024;

/// Decoded token. Nothing of it may be trusted. Header parameters that name keys (`jku`, `x5u`,
/// `jwk`, `x5c`) are not even read.
pub struct UnverifiedToken<'a> {
    pub(super) algorithm: Algorithm,
    pub(super) key_id: Option<String>,
    pub(super) token_type: Option<String>,
    pub(super) claims: Map<String, Value>,
    /// Header and claims as sent, which the signature covers.
    pub(super) signed: &'a str,
    pub(super) signature: Vec<u8>,
}

impl<'a> UnverifiedToken<'a> {
    /// Splits and decodes a token.
    pub fn parse(token: &'a str) -> Result<Self, TokenError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(TokenError::Size);
        }
        let mut parts = token.split('.');
        let (Some(header), Some(claims), Some(signature), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenError::Parts);
        };
        let mut header = object(header, TokenPart::Header)?;
        if header.contains_key("crit") {
            return Err(TokenError::Critical);
        }
        let algorithm = header.get("alg").and_then(Value::as_str);
        let algorithm = algorithm.and_then(Algorithm::from_name);
        Ok(Self {
            algorithm: algorithm.ok_or(TokenError::Algorithm)?,
            key_id: optional_text(&mut header, "kid")?,
            token_type: optional_text(&mut header, "typ")?,
            claims: object(claims, TokenPart::Claims)?,
            signed: &token[..token.len() - signature.len() - 1],
            signature: decode(signature, TokenPart::Signature)?,
        })
    }

    /// Returns the claim `iss`: it selects a configured issuer, and is used for nothing else.
    pub(super) fn issuer(&self) -> Result<&str, TokenError> {
        match self.claims.get("iss") {
            None => Err(TokenError::Missing { name: "iss" }),
            Some(Value::String(issuer)) => Ok(issuer),
            Some(_) => Err(TokenError::Claim { name: "iss" }),
        }
    }
}

impl fmt::Debug for UnverifiedToken<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("UnverifiedToken(***)")
    }
}

fn decode(text: &str, part: TokenPart) -> Result<Vec<u8>, TokenError> {
    let bytes = URL_SAFE_NO_PAD.decode(text);
    bytes.map_err(|_| TokenError::Encoding { part })
}

fn object(text: &str, part: TokenPart) -> Result<Map<String, Value>, TokenError> {
    parse_object(&decode(text, part)?).ok_or(TokenError::Json { part })
}

fn optional_text(
    header: &mut Map<String, Value>,
    name: &'static str,
) -> Result<Option<String>, TokenError> {
    match header.remove(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(TokenError::Header { name }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        let (header, claims) = (
            URL_SAFE_NO_PAD.encode(header),
            URL_SAFE_NO_PAD.encode(claims),
        );
        format!("{header}.{claims}.c2ln")
    }

    fn error(token: &str) -> TokenError {
        UnverifiedToken::parse(token).unwrap_err()
    }

    #[test]
    fn parts_are_decoded() {
        let text = token(
            r#"{"alg":"ES256","kid":"k","typ":"JWT","jku":5}"#,
            r#"{"iss":"i"}"#,
        );
        let parsed = UnverifiedToken::parse(&text).unwrap();
        assert_eq!(parsed.algorithm, Algorithm::Es256);
        assert_eq!(parsed.key_id.as_deref(), Some("k"));
        assert_eq!(parsed.token_type.as_deref(), Some("JWT"));
        assert_eq!(parsed.issuer(), Ok("i"));
        assert_eq!(format!("{}.c2ln", parsed.signed), text);
        assert_eq!(parsed.signature, b"sig");
        assert_eq!(format!("{parsed:?}"), "UnverifiedToken(***)");
    }

    #[test]
    fn malformed_tokens_are_rejected() {
        let good = token(r#"{"alg":"ES256"}"#, "{}");
        assert_eq!(error(""), TokenError::Parts);
        assert_eq!(error("a.b"), TokenError::Parts);
        assert_eq!(error(&format!("{good}.x")), TokenError::Parts);
        assert_eq!(
            error(&format!("{good}{}", "A".repeat(9000))),
            TokenError::Size
        );
        let part = TokenPart::Signature;
        for bad in [format!("{good}="), format!("{good} "), format!("{good}+/")] {
            assert_eq!(error(&bad), TokenError::Encoding { part });
        }
        let (header, claims) = (TokenPart::Header, TokenPart::Claims);
        assert_eq!(error(&token("[]", "{}")), TokenError::Json { part: header });
        let twice = token(r#"{"alg":"ES256","alg":"ES256"}"#, "{}");
        assert_eq!(error(&twice), TokenError::Json { part: header });
        let twice = token(r#"{"alg":"ES256"}"#, r#"{"aud":"a","aud":"b"}"#);
        assert_eq!(error(&twice), TokenError::Json { part: claims });
    }

    #[test]
    fn algorithm_none_and_critical_extensions_are_rejected() {
        for header in [
            "{}",
            r#"{"alg":"none"}"#,
            r#"{"alg":"None"}"#,
            r#"{"alg":"nOnE"}"#,
            r#"{"alg":""}"#,
            r#"{"alg":["ES256"]}"#,
            r#"{"alg":"es256"}"#,
        ] {
            assert_eq!(
                error(&token(header, "{}")),
                TokenError::Algorithm,
                "{header}"
            );
        }
        let critical = token(r#"{"alg":"ES256","crit":["b64"]}"#, "{}");
        assert_eq!(error(&critical), TokenError::Critical);
        let key_id = token(r#"{"alg":"ES256","kid":7}"#, "{}");
        assert_eq!(error(&key_id), TokenError::Header { name: "kid" });
    }

    #[test]
    fn issuer_is_one_text() {
        let issuer = |claims: &str| {
            let text = token(r#"{"alg":"ES256"}"#, claims);
            let parsed = UnverifiedToken::parse(&text).unwrap();
            parsed.issuer().map(str::to_owned)
        };
        assert_eq!(issuer("{}"), Err(TokenError::Missing { name: "iss" }));
        assert_eq!(
            issuer(r#"{"iss":["i"]}"#),
            Err(TokenError::Claim { name: "iss" })
        );
    }
}
