//! Key set documents (RFC 7517, 5).

use serde_json::Value;
use thiserror::Error;

use super::jwk::KeyError;
use super::key::VerificationKey;
use crate::algorithm::{Algorithm, AlgorithmSet};
use crate::json::parse_object;

/// Largest key set document, in bytes.
const DOCUMENT_BYTES_MAX: usize = 256 * 1024;
/// Most keys in a document.
const KEYS_MAX: usize = 100;

/// The keys of one issuer.
#[derive(Debug, Default)]
pub struct KeySet {
    keys: Vec<VerificationKey>,
    rejected: Vec<RejectedKey>,
}

/// A key of a document that is not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedKey {
    /// Position in the document, from 0.
    pub index: usize,
    /// Cause.
    pub error: KeyError,
}

/// Error in a key set document. The keys in use stay.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum KeySetError {
    #[error("key set has {bytes} bytes, at most {DOCUMENT_BYTES_MAX} are allowed")]
    TooLarge { bytes: usize },
    #[error("key set is not a JSON object with an array \"keys\" and no duplicate members")]
    Malformed,
    #[error("key set has {count} keys, at most {KEYS_MAX} are allowed")]
    TooManyKeys { count: usize },
    #[error("key set has no usable key; the first one: {}", first_cause(rejected))]
    NoKeys { rejected: Vec<RejectedKey> },
}

fn first_cause(rejected: &[RejectedKey]) -> String {
    let first = rejected.first();
    first.map_or_else(|| "there is none".to_owned(), |key| key.error.to_string())
}

/// Reason why a set has no key for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLookupError {
    /// No key has the ID. A newer key set may have one.
    UnknownId,
    /// The key does not support the algorithm.
    Algorithm,
    /// Several keys fit.
    Ambiguous,
}

impl KeySet {
    /// Parses a document. Keys that cannot be used are skipped and reported.
    pub fn parse(document: &[u8], allowed: AlgorithmSet) -> Result<Self, KeySetError> {
        let bytes = document.len();
        if bytes > DOCUMENT_BYTES_MAX {
            return Err(KeySetError::TooLarge { bytes });
        }
        let mut members = parse_object(document).ok_or(KeySetError::Malformed)?;
        let Some(Value::Array(list)) = members.remove("keys") else {
            return Err(KeySetError::Malformed);
        };
        let count = list.len();
        if count > KEYS_MAX {
            return Err(KeySetError::TooManyKeys { count });
        }
        let mut set = Self::default();
        for (index, jwk) in list.iter().enumerate() {
            match VerificationKey::from_jwk(jwk, allowed) {
                Ok(key) => set.keys.push(key),
                Err(error) => set.rejected.push(RejectedKey { index, error }),
            }
        }
        match set.keys.is_empty() {
            true => Err(KeySetError::NoKeys {
                rejected: set.rejected,
            }),
            false => Ok(set),
        }
    }

    /// Creates a set with one key from a file.
    pub fn of_one(key: VerificationKey) -> Self {
        Self {
            keys: vec![key],
            rejected: Vec::new(),
        }
    }

    /// Returns the key for a token: by ID, or without one the only key that fits.
    pub fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<&VerificationKey, KeyLookupError> {
        // A key from a file has no ID and serves every token.
        let fits = |key: &&VerificationKey| id.is_none() || key.id().is_none() || key.id() == id;
        let mut named = self.keys.iter().filter(fits).peekable();
        if named.peek().is_none() {
            return Err(KeyLookupError::UnknownId);
        }
        let mut usable = named.filter(|key| key.supports(algorithm));
        match (usable.next(), usable.next()) {
            (Some(key), None) => Ok(key),
            (Some(_), Some(_)) => Err(KeyLookupError::Ambiguous),
            (None, _) => Err(KeyLookupError::Algorithm),
        }
    }

    /// Returns the keys.
    pub fn keys(&self) -> &[VerificationKey] {
        &self.keys
    }

    /// Returns the keys of the document that are not used.
    pub fn rejected(&self) -> &[RejectedKey] {
        &self.rejected
    }

    /// Counts the keys of `self` that `other` lacks.
    pub(super) fn count_missing_in(&self, other: &Self) -> usize {
        let has = |key: &VerificationKey| {
            let mut keys = other.keys.iter();
            keys.any(|one| one.fingerprint() == key.fingerprint())
        };
        self.keys.iter().filter(|key| !has(key)).count()
    }
}
