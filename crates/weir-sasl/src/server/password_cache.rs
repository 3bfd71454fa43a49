//! Passwords that were right a short time ago, so that clients that reconnect cost no derivation
//! of keys. Only a keyed hash of each is stored.

use std::collections::HashMap;
use std::fmt;

use aws_lc_rs::hmac;
use weir_security::Secret;

use crate::users::Users;

/// Users in the cache; all are forgotten when it is full.
const ENTRIES_MAX: usize = 10_000;
/// Time for which a password is remembered, in milliseconds.
const LIFETIME_MS: u64 = 600_000;

/// Cache of right passwords.
pub struct PasswordCache {
    key: hmac::Key,
    by_user: HashMap<Box<str>, CachedPassword>,
}

struct CachedPassword {
    tag: hmac::Tag,
    until_ms: u64,
}

impl fmt::Debug for PasswordCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PasswordCache({})", self.by_user.len())
    }
}

impl PasswordCache {
    /// Creates an empty cache with a random key.
    pub fn new(key: &[u8]) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            by_user: HashMap::new(),
        }
    }

    /// Remembers that the user has this password. Does nothing for a user that does not exist.
    pub fn insert(&mut self, users: &Users, name: &str, password: &Secret, now_ms: u64) {
        let Some(text) = text(users, name, password) else {
            return;
        };
        if self.by_user.len() >= ENTRIES_MAX {
            self.by_user.clear();
        }
        let cached = CachedPassword {
            tag: hmac::sign(&self.key, &text),
            until_ms: now_ms.saturating_add(LIFETIME_MS),
        };
        self.by_user.insert(name.into(), cached);
    }

    /// Returns `true` if the user has this password and it was right not long ago. After a change
    /// of the user's entry it returns `false`.
    pub fn contains(&self, users: &Users, name: &str, password: &Secret, now_ms: u64) -> bool {
        let cached = self.by_user.get(name);
        let cached = cached.filter(|cached| now_ms < cached.until_ms);
        match (cached, text(users, name, password)) {
            (Some(cached), Some(text)) => {
                hmac::verify(&self.key, &text, cached.tag.as_ref()).is_ok()
            }
            _ => false,
        }
    }
}

/// Returns the bytes that are hashed: the stored key, the password and the name.
fn text(users: &Users, name: &str, password: &Secret) -> Option<Vec<u8>> {
    let stored = users.password_key(name)?;
    let password = password.reveal().as_bytes();
    let length = (password.len() as u64).to_be_bytes();
    Some([stored, &length, password, name.as_bytes()].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::Credential;
    use weir_security::ScramHash;

    #[test]
    fn right_password_is_remembered_until_it_changes() {
        let [old, new] = ["old", "new"].map(Secret::new);
        let users = [&old, &new].map(|password| {
            let hash = ScramHash::Sha512;
            let credential = Credential::derive(hash, password, vec![1], 4096);
            let line = format!("anna:SCRAM-SHA-512:{credential}");
            Users::parse(&line, b"").expect("valid")
        });
        let mut cache = PasswordCache::new(b"key");
        assert!(!cache.contains(&users[0], "anna", &old, 0));
        cache.insert(&users[0], "anna", &old, 0);
        cache.insert(&users[0], "bob", &old, 0);
        assert!(cache.contains(&users[0], "anna", &old, LIFETIME_MS - 1));
        assert!(!cache.contains(&users[0], "anna", &old, LIFETIME_MS));
        assert!(!cache.contains(&users[0], "anna", &new, 0));
        assert!(!cache.contains(&users[0], "bob", &old, 0), "no such user");
        assert!(
            !cache.contains(&users[1], "anna", &old, 0),
            "changed password"
        );
        assert_eq!(format!("{cache:?}"), "PasswordCache(1)");
    }

    #[test]
    fn cache_is_bounded() {
        let credential = Credential::derive(ScramHash::Sha256, &Secret::new("p"), vec![1], 4096);
        let lines = (0..=ENTRIES_MAX).map(|n| format!("u{n}:SCRAM-SHA-256:{credential}\n"));
        let users = Users::parse(&lines.collect::<String>(), b"").expect("valid");
        let mut cache = PasswordCache::new(b"key");
        for n in 0..=ENTRIES_MAX {
            cache.insert(&users, &format!("u{n}"), &Secret::new("p"), 0);
            assert!(cache.by_user.len() <= ENTRIES_MAX);
        }
    }
}
