//! Random texts of logins.

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use thiserror::Error;

/// The system has no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the system has no random numbers for the login")]
pub struct NoRandom;

/// Returns random bytes.
pub fn random_bytes<const N: usize>() -> Result<[u8; N], NoRandom> {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).map_err(|_| NoRandom)?;
    Ok(bytes)
}

/// Returns a random nonce for SCRAM.
pub fn random_nonce() -> Result<String, NoRandom> {
    Ok(STANDARD.encode(random_bytes::<24>()?))
}
