//! The token of session administration, and comparison of tokens.

use std::fmt;

use serde::Deserialize;

/// Bearer token of session administration. `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct SessionsToken(String);

impl SessionsToken {
    /// Wraps a token.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// Returns the token. The caller must not log or print it.
    pub(super) fn reveal(&self) -> &str {
        &self.0
    }

    /// Returns `true` if a request has this token. The time does not depend on where it differs.
    pub(super) fn is(&self, given: &str) -> bool {
        equals_constant_time(given.as_bytes(), self.0.as_bytes())
    }
}

impl fmt::Debug for SessionsToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

pub(super) fn equals_constant_time(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}
