//! Keys that verify tokens: key set documents, PEM, secrets, discovery, and when to fetch.

mod discovery;
mod jwk;
mod key;
mod key_set;
mod rotation;

pub use discovery::{DiscoveryError, discovered_keys_url, discovery_url};
pub use jwk::KeyError;
pub use key::VerificationKey;
pub use key_set::{KeyLookupError, KeySet, KeySetError, RejectedKey};
pub use rotation::{KeyAvailability, KeyChange, KeyRotation, RotationLimits};
