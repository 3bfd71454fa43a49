//! Revocations as operators write and read them.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_identity::{Revocation, RevocationKey};

use super::api_error::ApiError;
use crate::trace::{time_text, unix_ms};

/// Time for which an entry is stored unless the operator names the end of all its tokens.
const STORED_MS: u64 = 30 * 86_400_000;

/// Body of a call that revokes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RevocationBody {
    issuer: Box<str>,
    jti: Option<Box<str>>,
    user: Option<Box<str>>,
    /// RFC 3339; default now.
    issued_before: Option<String>,
    /// RFC 3339; default in 30 days.
    expires: Option<String>,
}

impl RevocationBody {
    pub(super) fn entry(self) -> Result<Revocation, ApiError> {
        let now_ms = unix_ms();
        let time = |text: &Option<String>, name| {
            let parsed = text.as_ref().map(|text| text.parse::<Timestamp>());
            let parsed = parsed
                .transpose()
                .ok()
                .map(|time| time.map(Timestamp::as_millisecond));
            parsed
                .map(|ms| ms.and_then(|ms| u64::try_from(ms).ok()))
                .ok_or(ApiError::Time(name))
        };
        let issued_before = time(&self.issued_before, "issued_before")?;
        let expires = time(&self.expires, "expires")?;
        let issuer = self.issuer;
        let (key, issued_before_ms) = match (self.jti, self.user) {
            (Some(jti), None) => (RevocationKey::Token { issuer, jti }, issued_before),
            (None, Some(user)) => {
                let before_ms = issued_before.unwrap_or(now_ms);
                (RevocationKey::User { issuer, user }, Some(before_ms))
            }
            _ => return Err(ApiError::RevocationKey),
        };
        Ok(Revocation {
            key,
            issued_before_ms,
            expires_ms: expires.unwrap_or(now_ms + STORED_MS),
        })
    }
}

/// Returns an entry as JSON.
pub(super) fn row(entry: &Revocation) -> Value {
    let (issuer, jti, user) = match &entry.key {
        RevocationKey::Token { issuer, jti } => (issuer, Some(jti), None),
        RevocationKey::User { issuer, user } => (issuer, None, Some(user)),
    };
    json!({
        "id": entry.key.id(),
        "issuer": issuer,
        "jti": jti,
        "user": user,
        "issued_before": entry.issued_before_ms.map(time_text),
        "expires": time_text(entry.expires_ms),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> Result<Revocation, ApiError> {
        let body: RevocationBody = serde_json::from_str(text).unwrap();
        body.entry()
    }

    #[test]
    fn times_have_defaults_and_must_be_readable() {
        let before = unix_ms();
        let user = entry(r#"{"issuer":"i","user":"anna"}"#).unwrap();
        let issued = user.issued_before_ms.unwrap();
        assert!((before..=unix_ms()).contains(&issued));
        assert!(user.expires_ms >= before + STORED_MS);
        let token = entry(r#"{"issuer":"i","jti":"t","expires":"2027-01-15T08:00:00Z"}"#).unwrap();
        assert_eq!(
            (token.issued_before_ms, token.expires_ms),
            (None, 1_800_000_000_000)
        );
        let shown = row(&token);
        assert_eq!((&shown["jti"], &shown["user"]), (&json!("t"), &Value::Null));
        assert_eq!(shown["expires"], "2027-01-15T08:00:00.000Z");
        for bad in [
            r#"{"issuer":"i"}"#,
            r#"{"issuer":"i","jti":"t","user":"u"}"#,
            r#"{"issuer":"i","jti":"t","expires":"soon"}"#,
        ] {
            assert!(entry(bad).is_err(), "{bad}");
        }
    }
}
