//! Revoked tokens and users.

use std::collections::hash_map::Entry;

use aws_lc_rs::digest::{SHA256, digest};
use foldhash::{HashMap, HashMapExt};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::identity::UserIdentity;

/// Maximum length of an issuer, token ID or user name, in bytes.
const TEXT_BYTES_MAX: usize = 2048;
/// Bytes of the hash that names an entry.
const ID_BYTES: usize = 8;

/// Tokens that an entry revokes.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum RevocationKey {
    /// The token with this ID.
    Token {
        /// Issuer.
        issuer: Box<str>,
        /// Token ID.
        jti: Box<str>,
    },
    /// Tokens of this user.
    User {
        /// Issuer.
        issuer: Box<str>,
        /// User name.
        user: Box<str>,
    },
}

impl RevocationKey {
    /// Returns a short name of the entry, the same in all gateways.
    pub fn id(&self) -> String {
        let (kind, issuer, text) = match self {
            Self::Token { issuer, jti } => ("token", issuer, jti),
            Self::User { issuer, user } => ("user", issuer, user),
        };
        let hash = digest(&SHA256, format!("{kind}\0{issuer}\0{text}").as_bytes());
        let bytes = hash.as_ref().iter().take(ID_BYTES);
        bytes.map(|byte| format!("{byte:02x}")).collect()
    }
}

/// One revocation, as the admin API and the shared topic carry it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Revocation {
    /// Tokens that it revokes.
    pub key: RevocationKey,
    /// For a user: tokens issued before this time, Unix time in milliseconds, and those without a
    /// time of issue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issued_before_ms: Option<u64>,
    /// Time at which every revoked token has expired, Unix time in milliseconds.
    pub expires_ms: u64,
}

impl Revocation {
    /// Returns `true` if the token of this identity is revoked by the entry.
    pub fn covers(&self, identity: &UserIdentity) -> bool {
        match &self.key {
            RevocationKey::Token { issuer, jti } => {
                **issuer == *identity.issuer() && identity.token_id() == Some(jti)
            }
            RevocationKey::User { issuer, user } => {
                **issuer == *identity.issuer()
                    && **user == *identity.user()
                    && self.is_issued_before(identity)
            }
        }
    }

    /// Returns `true` if the token was issued before `issued_before_ms`, or has no time of issue.
    fn is_issued_before(&self, identity: &UserIdentity) -> bool {
        let issued_ms = identity.issued_ms();
        let before = |before_ms| issued_ms.is_none_or(|issued_ms| issued_ms < before_ms);
        self.issued_before_ms.is_some_and(before)
    }
}

/// Error in a revocation.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum RevocationError {
    #[error("\"issued_before_ms\" is required for a user and not allowed for a token")]
    IssueTime,
    #[error("issuer, token ID or user is empty or has more than {TEXT_BYTES_MAX} bytes")]
    Text,
    #[error("{count_max} revocations are stored already")]
    Full { count_max: usize },
}

/// Stored revocations. The caller removes those whose tokens have expired.
#[derive(Debug)]
pub struct Revocations {
    entries: HashMap<RevocationKey, Revocation>,
    count_max: usize,
}

impl Revocations {
    /// Creates an empty list for at most `count_max` entries.
    pub fn new(count_max: usize) -> Self {
        Self {
            entries: HashMap::new(),
            count_max,
        }
    }

    /// Adds a revocation. If one with the same key is stored, the later of both values remains for
    /// `issued_before_ms` and for `expires_ms`. Returns the stored revocation, and `true` if it has
    /// changed.
    ///
    /// # Errors
    /// [`RevocationError`] if the revocation is invalid, or too many are stored.
    pub fn insert(
        &mut self,
        mut revocation: Revocation,
    ) -> Result<(&Revocation, bool), RevocationError> {
        check(&revocation)?;
        let (count, count_max) = (self.entries.len(), self.count_max);
        match self.entries.entry(revocation.key.clone()) {
            Entry::Occupied(old) => {
                let old = old.into_mut();
                revocation.issued_before_ms = revocation.issued_before_ms.max(old.issued_before_ms);
                revocation.expires_ms = revocation.expires_ms.max(old.expires_ms);
                let is_new = revocation != *old;
                *old = revocation;
                Ok((old, is_new))
            }
            Entry::Vacant(_) if count >= count_max => Err(RevocationError::Full { count_max }),
            Entry::Vacant(free) => Ok((free.insert(revocation), true)),
        }
    }

    /// Removes a revocation. Returns `false` if there was none.
    pub fn remove(&mut self, key: &RevocationKey) -> bool {
        self.entries.remove(key).is_some()
    }

    /// Removes the revocations whose tokens have expired by `now_ms`.
    pub fn remove_expired(&mut self, now_ms: u64) {
        self.entries.retain(|_, entry| entry.expires_ms > now_ms);
    }

    /// Returns `true` if the token of this identity is revoked.
    pub fn is_revoked(&self, identity: &UserIdentity) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let issuer: Box<str> = identity.issuer().into();
        let token = identity.token_id().map(|jti| RevocationKey::Token {
            issuer: issuer.clone(),
            jti: jti.into(),
        });
        if token.is_some_and(|key| self.entries.contains_key(&key)) {
            return true;
        }
        let user = identity.user().into();
        let entry = self.entries.get(&RevocationKey::User { issuer, user });
        entry.is_some_and(|entry| entry.is_issued_before(identity))
    }

    /// Returns the revocations, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Revocation> {
        self.entries.values()
    }

    /// Returns the number of revocations.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns `true` if there are no revocations.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

fn check(revocation: &Revocation) -> Result<(), RevocationError> {
    let (issuer, text, is_user) = match &revocation.key {
        RevocationKey::Token { issuer, jti } => (issuer, jti, false),
        RevocationKey::User { issuer, user } => (issuer, user, true),
    };
    if is_user != revocation.issued_before_ms.is_some() {
        return Err(RevocationError::IssueTime);
    }
    let is_text = |text: &str| !text.is_empty() && text.len() <= TEXT_BYTES_MAX;
    match is_text(issuer) && is_text(text) {
        true => Ok(()),
        false => Err(RevocationError::Text),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::identity::{AuthMethod, IdentityParts};

    fn token(jti: &str) -> Revocation {
        Revocation {
            key: RevocationKey::Token {
                issuer: "i".into(),
                jti: jti.into(),
            },
            issued_before_ms: None,
            expires_ms: 1_000,
        }
    }

    fn user(issued_before_ms: u64) -> Revocation {
        Revocation {
            key: RevocationKey::User {
                issuer: "i".into(),
                user: "anna".into(),
            },
            issued_before_ms: Some(issued_before_ms),
            expires_ms: 1_000,
        }
    }

    fn identity(issuer: &str, jti: Option<&str>, issued_ms: Option<u64>) -> UserIdentity {
        let parts = IdentityParts {
            user: "anna",
            token_id: jti,
            issued_ms,
            ..IdentityParts::default()
        };
        UserIdentity::new(Arc::from(issuer), AuthMethod::Jwt, parts).unwrap()
    }

    #[test]
    fn token_is_revoked_by_issuer_and_id() {
        let mut list = Revocations::new(10);
        list.insert(token("t")).unwrap();
        assert!(list.is_revoked(&identity("i", Some("t"), None)));
        assert!(!list.is_revoked(&identity("other", Some("t"), None)));
        assert!(!list.is_revoked(&identity("i", Some("u"), None)));
        assert!(!list.is_revoked(&identity("i", None, None)));
        list.remove_expired(999);
        assert_eq!(list.len(), 1);
        list.remove_expired(1_000);
        assert!(list.is_empty());
    }

    #[test]
    fn user_is_revoked_by_issue_time() {
        let mut list = Revocations::new(10);
        assert!(list.insert(user(500)).unwrap().1);
        let (stored, is_new) = list.insert(user(400)).unwrap();
        assert_eq!((stored, is_new), (&user(500), false));
        assert!(list.is_revoked(&identity("i", None, Some(499))));
        assert!(!list.is_revoked(&identity("i", None, Some(500))));
        assert!(
            list.is_revoked(&identity("i", None, None)),
            "no time of issue"
        );
        assert!(list.remove(&user(1).key));
        assert!(!list.remove(&user(1).key));
        assert!(!list.is_revoked(&identity("i", None, Some(1))));
    }

    #[test]
    fn entry_covers_revoked_tokens() {
        for entry in [token("t"), user(500)] {
            let mut list = Revocations::new(1);
            list.insert(entry.clone()).unwrap();
            for issuer in ["i", "other"] {
                for (jti, issued_ms) in [(None, None), (Some("t"), Some(500)), (None, Some(499))] {
                    let identity = identity(issuer, jti, issued_ms);
                    assert_eq!(entry.covers(&identity), list.is_revoked(&identity));
                }
            }
        }
    }

    #[test]
    fn ids_name_kind_issuer_and_text() {
        let (token, user) = (token("anna").key, user(1).key);
        assert_eq!(token.id(), token.clone().id());
        assert_eq!((token.id().len(), user.id().len()), (16, 16));
        assert_ne!(token.id(), user.id());
    }

    #[test]
    fn full_list_and_bad_entries_are_rejected() {
        let mut list = Revocations::new(1);
        list.insert(token("t")).unwrap();
        list.insert(token("t")).unwrap();
        assert_eq!(
            list.insert(token("u")),
            Err(RevocationError::Full { count_max: 1 })
        );
        assert_eq!(list.insert(token("")), Err(RevocationError::Text));
        let long = "x".repeat(TEXT_BYTES_MAX + 1);
        assert_eq!(list.insert(token(&long)), Err(RevocationError::Text));
        let mut untimed = user(1);
        untimed.issued_before_ms = None;
        assert_eq!(list.insert(untimed), Err(RevocationError::IssueTime));
    }

    #[test]
    fn json_form_is_read_back() {
        for revocation in [token("t"), user(5)] {
            let text = serde_json::to_string(&revocation).unwrap();
            assert_eq!(
                serde_json::from_str::<Revocation>(&text).unwrap(),
                revocation
            );
        }
        let text = r#"{"key":{"issuer":"i","jti":"t"},"expires_ms":1000}"#;
        assert_eq!(
            serde_json::from_str::<Revocation>(text).unwrap(),
            token("t")
        );
        let both = r#"{"key":{"issuer":"i","jti":"t","user":"u"},"expires_ms":1}"#;
        assert!(serde_json::from_str::<Revocation>(both).is_err());
    }
}
