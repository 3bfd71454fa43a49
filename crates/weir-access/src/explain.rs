//! Tokens verified without a running gateway.

use std::sync::Arc;

use weir_identity::token::IdentifiedClient;

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
    /// Verifies a token at a Unix time in milliseconds, with the keys in files and, with
    /// `fetches_keys`, those on the web.
    ///
    /// # Errors
    /// The token is not valid, or its key is not available.
    pub fn verify_token(
        self,
        token: &str,
        unix_ms: u64,
        fetches_keys: bool,
    ) -> Result<Arc<IdentifiedClient>, TokenRefusal> {
        let authenticator = Authenticator::new(self, &[]);
        // They are not read for this.
        authenticator.revocations_are_known();
        let failures = match fetches_keys {
            true => authenticator.fetch_keys(),
            false => Vec::new(),
        };
        authenticator
            .verify(token, None, unix_ms)
            .map_err(|failure| {
                let reason = failure.to_string();
                let fetch = failures
                    .iter()
                    .find(|(issuer, _)| failure.lacks_keys_of(*issuer));
                TokenRefusal {
                    code: failure.refusal().0.code(),
                    reason: match fetch {
                        Some((_, error)) => format!("{reason}: {error}"),
                        None => reason,
                    },
                }
            })
    }
}
