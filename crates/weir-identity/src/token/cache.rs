//! Verified tokens by hash, so that mass reconnections cost a hash instead of a signature.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use foldhash::{HashMap, HashMapExt};

use super::verifier::IdentifiedClient;

type TokenHash = [u8; 32];

/// Verified tokens of two generations. When the younger one is full, the older one is dropped.
///
/// The caller checks the end of a token and its revocation each time, and clears the cache when a
/// key was withdrawn.
#[derive(Debug)]
pub struct TokenCache {
    young: HashMap<TokenHash, Arc<IdentifiedClient>>,
    old: HashMap<TokenHash, Arc<IdentifiedClient>>,
    generation_max: usize,
}

impl TokenCache {
    /// Creates a cache for at most `count_max` tokens.
    pub fn new(count_max: usize) -> Self {
        Self {
            young: HashMap::new(),
            old: HashMap::new(),
            generation_max: (count_max / 2).max(1),
        }
    }

    /// Returns what a token was verified to.
    pub fn get(&mut self, token: &str) -> Option<Arc<IdentifiedClient>> {
        let hash = token_hash(token);
        if let Some(found) = self.young.get(&hash) {
            return Some(Arc::clone(found));
        }
        let found = self.old.remove(&hash)?;
        self.store(hash, Arc::clone(&found));
        Some(found)
    }

    /// Stores a verified token.
    pub fn insert(&mut self, token: &str, verified: Arc<IdentifiedClient>) {
        self.store(token_hash(token), verified);
    }

    /// Removes all tokens.
    pub fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Returns `true` if there are no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn store(&mut self, hash: TokenHash, verified: Arc<IdentifiedClient>) {
        if self.young.len() >= self.generation_max {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&hash);
        self.young.insert(hash, verified);
    }
}

fn token_hash(token: &str) -> TokenHash {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claims::Claims;
    use crate::identity::UserIdentity;

    fn verified() -> Arc<IdentifiedClient> {
        Arc::new(IdentifiedClient {
            identity: UserIdentity::anonymous().into(),
            claims: Claims::default(),
        })
    }

    #[test]
    fn count_is_bounded_and_used_tokens_stay() {
        let mut cache = TokenCache::new(10);
        cache.insert("used", verified());
        for number in 0..100 {
            cache.insert(&number.to_string(), verified());
            assert!(cache.get("used").is_some(), "{number}");
            assert!(cache.len() <= 10, "{}", cache.len());
        }
        assert!(cache.get("0").is_none());
        assert!(cache.get("99").is_some());
        cache.clear();
        assert!(cache.get("99").is_none());
        assert!(cache.is_empty());
    }
}
