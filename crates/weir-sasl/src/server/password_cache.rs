//! Cache of recently verified passwords, so that clients that reconnect need no key derivation.
//! Only a keyed hash of each password is stored.

use std::collections::HashMap;
use std::fmt;

use aws_lc_rs::hmac;
use weir_security::Secret;

use crate::users::Users;

/// Maximum number of users in the cache; if it is full, it is cleared.
const ENTRIES_MAX: usize = 10_000;
/// Time after which a password must be verified again.
const LIFETIME_MS: u64 = 600_000;

/// Cache of verified passwords.
pub struct PasswordCache {
    key: hmac::Key,
    by_user: HashMap<Box<str>, CachedPassword>,
}

struct CachedPassword {
    /// Keyed hash.
    tag: hmac::Tag,
    expiry_ms: u64,
}

impl fmt::Debug for PasswordCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PasswordCache({})", self.by_user.len())
    }
}

impl PasswordCache {
    /// Creates an empty cache. `key` is the secret key of its hashes and must be random.
    pub fn new(key: &[u8]) -> Self {
        Self {
            key: hmac::Key::new(hmac::HMAC_SHA256, key),
            by_user: HashMap::new(),
        }
    }

    /// Stores that the user's password was verified. Does nothing for a user that does not exist.
    pub fn insert(&mut self, users: &Users, name: &str, password: &Secret, now_ms: u64) {
        let Some(input) = hash_input(users, name, password) else {
            return;
        };
        if self.by_user.len() >= ENTRIES_MAX {
            self.by_user.clear();
        }
        let cached = CachedPassword {
            tag: hmac::sign(&self.key, &input),
            expiry_ms: now_ms.saturating_add(LIFETIME_MS),
        };
        self.by_user.insert(name.into(), cached);
    }

    /// Returns `true` if this password of the user was verified less than 10 minutes ago, and the
    /// user's password has not changed since.
    pub fn contains(&self, users: &Users, name: &str, password: &Secret, now_ms: u64) -> bool {
        let cached = self.by_user.get(name);
        let cached = cached.filter(|cached| now_ms < cached.expiry_ms);
        match (cached, hash_input(users, name, password)) {
            (Some(cached), Some(input)) => {
                hmac::verify(&self.key, &input, cached.tag.as_ref()).is_ok()
            }
            _ => false,
        }
    }
}

/// Returns the bytes to hash: the user's stored key, the password and the name. Returns `None` for
/// a user that does not exist.
fn hash_input(users: &Users, name: &str, password: &Secret) -> Option<Vec<u8>> {
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
    fn verified_password_is_cached_until_it_changes() {
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
