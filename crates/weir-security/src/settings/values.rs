//! Values of properties.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::SettingsError;
use crate::secret::Secret;

/// Values of the properties that Weir reads itself.
pub(super) struct Values<'a>(pub(super) BTreeMap<&'a str, &'a str>);

impl<'a> Values<'a> {
    /// Returns the value of a property; an empty value counts as none.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.raw(name).filter(|value| !value.is_empty())
    }

    /// Returns the value of a property, also an empty one.
    pub(super) fn raw(&self, name: &str) -> Option<&'a str> {
        self.0.get(name).copied()
    }

    /// Returns the first of several properties that has a value, with its name.
    pub(super) fn first(&self, names: &[&'static str]) -> Option<(&'static str, &'a str)> {
        let mut found = names
            .iter()
            .filter_map(|name| Some((*name, self.get(name)?)));
        found.next()
    }

    /// Returns the only one of several properties that has a value, with its name.
    pub(super) fn only(
        &self,
        names: &[&'static str],
    ) -> Result<Option<(&'static str, &'a str)>, SettingsError> {
        let mut found = names
            .iter()
            .filter_map(|name| Some((*name, self.get(name)?)));
        match (found.next(), found.next()) {
            (Some((one, _)), Some((other, _))) => Err(SettingsError::Contradiction { one, other }),
            (only, _) => Ok(only),
        }
    }

    /// Returns a secret.
    pub(super) fn secret(&self, name: &str) -> Option<Secret> {
        self.get(name).map(Secret::new)
    }

    /// Returns a boolean, `false` if it is not set.
    pub(super) fn flag(&self, name: &'static str) -> Result<bool, SettingsError> {
        match self.get(name) {
            None => Ok(false),
            Some(text) if text.eq_ignore_ascii_case("true") => Ok(true),
            Some(text) if text.eq_ignore_ascii_case("false") => Ok(false),
            Some(text) => Err(unknown(name, text, "true or false")),
        }
    }

    /// Returns the properties of encryption, also empty ones.
    pub(super) fn encryption(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let all = self.0.iter().map(|(name, value)| (*name, *value));
        all.filter(|(name, _)| name.starts_with("ssl.") || name.starts_with("enable.ssl."))
    }

    /// Returns the names of the properties that have a value.
    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> {
        let set = self.0.iter().filter(|(_, value)| !value.is_empty());
        set.map(|(name, _)| *name)
    }
}

/// Returns the error of an unknown value.
pub(super) fn unknown(property: &str, value: &str, possible: &str) -> SettingsError {
    SettingsError::UnknownValue {
        property: property.to_owned(),
        value: value.to_owned(),
        possible: possible.to_owned(),
    }
}

/// Reads the file that a property names.
pub(super) fn file(property: &'static str, path: &str) -> Result<Vec<u8>, SettingsError> {
    crate::stores::read_file(Path::new(path)).map_err(|error| SettingsError::File {
        property,
        path: path.to_owned(),
        error: Box::new(error),
    })
}
