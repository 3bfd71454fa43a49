//! Identities of clients and their rights: tokens, key sets, item rules, audit records and the
//! protocol of remote adapters.
//!
//! The crate opens no sockets and files, starts no threads and reads no clock: keys, documents and
//! times are arguments.

pub mod acl;
mod algorithm;
pub mod ari;
pub mod audit;
mod claims;
pub mod config;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod identity;
mod json;
pub mod keys;
mod modes;
pub mod principal;
mod revocation;
pub mod rules;
pub mod token;
mod url;

pub use algorithm::{Algorithm, AlgorithmSet, KeyFamily};
pub use claims::{
    CLAIM_VALUES_MAX, ClaimPath, ClaimPathError, Claims, ReservedClaims, TooManyValues,
};
pub use identity::{AuthMethod, IdentityParts, USER_BYTES_MAX, UserIdentity};
pub use modes::{ItemMode, ItemModes, UnknownMode};
pub use principal::{MappingError, Principal, SubjectMapping};
pub use revocation::{Revocation, RevocationError, RevocationKey, Revocations};
pub use url::{SafeUrl, UrlError};
