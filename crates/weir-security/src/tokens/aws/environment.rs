//! Environment variables, and in tests a fixed set of them.

use std::collections::BTreeMap;
use std::fmt;

use super::super::error::TokenError;

/// Source of environment variables.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Environment {
    /// Those of the process.
    Process,
    #[cfg_attr(not(test), expect(dead_code, reason = "tests set their own variables"))]
    Fixed(BTreeMap<String, String>),
}

impl Environment {
    /// Returns a variable that is set and not empty.
    pub(super) fn variable(&self, name: &str) -> Option<String> {
        let value = match self {
            Self::Process => std::env::var(name).ok(),
            Self::Fixed(variables) => variables.get(name).cloned(),
        };
        value.filter(|value| !value.is_empty())
    }

    pub(super) fn required(&self, name: &'static str) -> Result<String, TokenError> {
        self.variable(name).ok_or(TokenError::Variable {
            name,
            reason: "is not set",
        })
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}
