//! A text that must not appear in logs, errors or reports.

use std::fmt;

/// A password, key or token. `Debug` prints `***`; there is no `Display`.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text. The caller must not log or print it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_text() {
        let secret = Secret::new("s3cret");
        assert_eq!(format!("{secret:?}"), "***");
        assert_eq!(secret.reveal(), "s3cret");
    }
}
