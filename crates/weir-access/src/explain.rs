//! Tokens verified without a running gateway.

use std::sync::Arc;

use weir_identity::token::VerifiedToken;

use crate::authenticator::Authenticator;
use crate::config::AccessConfig;

/// Why a token is refused.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub struct TokenRefusal {
    /// Reason, for the operator only.
    pub reason: String,
    /// Code that the client gets.
    pub code: i32,
}

impl AccessConfig {
    /// Verifies a token at a Unix time in milliseconds, with the keys in files. Keys on the web are
    /// not fetched.
    ///
    /// # Errors
    /// The token is not valid, or its key is not in a file.
    pub fn verify_token(
        self,
        token: &str,
        unix_ms: u64,
    ) -> Result<Arc<VerifiedToken>, TokenRefusal> {
        let authenticator = Authenticator::new(self, &[]);
        // They are not read for this.
        authenticator.revocations_are_known();
        authenticator
            .verify(token, None, unix_ms)
            .map_err(|failure| TokenRefusal {
                code: failure.refusal().0.code(),
                reason: failure.to_string(),
            })
    }
}
