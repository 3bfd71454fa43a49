//! Names of the files with stores of certificates, kept to read the stores again.

use super::values::Values;
use crate::secret::Secret;

/// Properties of encryption that name files. Empty if none does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StoreFiles(Vec<(String, Secret)>);

impl StoreFiles {
    pub(super) fn of(values: &Values<'_>) -> Self {
        let all: Vec<_> = values.encryption().collect();
        let is_file = |name: &str| name.ends_with(".location");
        if !all.iter().any(|(name, _)| is_file(name)) {
            return Self::default();
        }
        let owned = |(name, value): (&str, &str)| (name.to_owned(), Secret::new(value));
        Self(all.into_iter().map(owned).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns all properties of encryption, passwords included.
    pub(super) fn values(&self) -> Values<'_> {
        let pairs = self.0.iter();
        Values(
            pairs
                .map(|(name, value)| (name.as_str(), value.reveal()))
                .collect(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_password() {
        let files = StoreFiles(vec![("ssl.key.password".to_owned(), Secret::new("pencil"))]);
        assert!(!format!("{files:?}").contains("pencil"));
    }
}
