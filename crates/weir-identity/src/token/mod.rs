//! JSON Web Tokens in compact form: parsing and validation.

mod cache;
mod error;
mod unverified;
mod verifier;

pub use cache::TokenCache;
pub use error::{TokenError, TokenPart, TokenRejection};
pub use unverified::{TOKEN_BYTES_MAX, UnverifiedToken};
pub use verifier::{IdentifiedClient, TokenVerifier};
