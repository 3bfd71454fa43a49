//! Principals of client connections to the proxy, for rules, metrics and the audit log.

mod mapping;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

pub use self::mapping::{MappingError, SubjectMapping};
use crate::claims::Claims;

/// Longest name of a principal, in bytes.
pub const PRINCIPAL_BYTES_MAX: usize = 1_024;
/// Kind (Kafka's principal type) of all principals that Kafka's own authenticators create.
const USER: &str = "User";
/// Name of the principal of connections without a login.
const ANONYMOUS: &str = "ANONYMOUS";

/// Owner of a client connection to the proxy, as `User:alice`.
#[derive(Debug, Clone, PartialEq)]
pub struct Principal {
    kind: Box<str>,
    name: Box<str>,
    groups: Box<[Box<str>]>,
    claims: Option<Arc<Claims>>,
}

/// Text that is not a principal.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("invalid principal \"{0}\": write KIND:NAME, such as User:alice")]
pub struct PrincipalError(pub String);

impl Principal {
    /// Creates the principal of a user. Returns `None` if the name is empty, longer than
    /// [`PRINCIPAL_BYTES_MAX`] or has control characters.
    pub fn user(name: &str) -> Option<Self> {
        Self::new(USER, name)
    }

    /// Returns `User:ANONYMOUS`, the principal of connections without a login.
    pub fn anonymous() -> Self {
        Self {
            kind: USER.into(),
            name: ANONYMOUS.into(),
            groups: Box::default(),
            claims: None,
        }
    }

    fn new(kind: &str, name: &str) -> Option<Self> {
        let is_word = !kind.is_empty() && kind.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let is_name = !name.is_empty()
            && name.len() <= PRINCIPAL_BYTES_MAX
            && !name.chars().any(char::is_control);
        (is_word && is_name).then(|| Self {
            kind: kind.into(),
            name: name.into(),
            groups: Box::default(),
            claims: None,
        })
    }

    /// Sets the groups.
    #[must_use]
    pub fn with_groups(mut self, groups: impl IntoIterator<Item = Box<str>>) -> Self {
        self.groups = groups.into_iter().collect();
        self
    }

    /// Sets the claims of the token or certificate.
    #[must_use]
    pub fn with_claims(mut self, claims: Arc<Claims>) -> Self {
        self.claims = Some(claims);
        self
    }

    /// Returns the kind, Kafka's principal type: `User`, except in rules.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the name without the kind.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the groups.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = &str> {
        self.groups.iter().map(|group| &**group)
    }

    /// Returns the claims of the token or certificate, if the connection has one.
    pub fn claims(&self) -> Option<&Claims> {
        self.claims.as_deref()
    }

    /// Returns `true` if both have the same kind and name. Groups and claims may change when a
    /// connection logs in again.
    pub fn is_same(&self, other: &Self) -> bool {
        self.kind == other.kind && self.name == other.name
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.name)
    }
}

impl FromStr for Principal {
    type Err = PrincipalError;

    fn from_str(text: &str) -> Result<Self, PrincipalError> {
        let parts = text.split_once(':');
        let principal = parts.and_then(|(kind, name)| Self::new(kind, name));
        principal.ok_or_else(|| PrincipalError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_principal_is_parsed_again() {
        let anna = Principal::user("anna:x, y").unwrap();
        assert_eq!(anna.to_string(), "User:anna:x, y");
        assert_eq!(anna.to_string().parse::<Principal>().as_ref(), Ok(&anna));
        assert_eq!((anna.kind(), anna.name()), ("User", "anna:x, y"));
        assert_eq!(Principal::anonymous().to_string(), "User:ANONYMOUS");
    }

    #[test]
    fn invalid_names_are_rejected() {
        let long = "x".repeat(PRINCIPAL_BYTES_MAX + 1);
        for name in ["", "a\nb", "a\0", &long] {
            assert_eq!(Principal::user(name), None, "{name}");
        }
        for text in ["anna", ":anna", "User:", "Us er:anna"] {
            assert!(text.parse::<Principal>().is_err(), "{text}");
        }
    }

    #[test]
    fn groups_and_claims_do_not_identify() {
        let plain = Principal::user("anna").unwrap();
        let grouped = plain.clone().with_groups(["admins".into()]);
        let grouped = grouped.with_claims(Arc::new(Claims::default()));
        assert!(plain.is_same(&grouped) && plain != grouped);
        assert_eq!(grouped.groups().collect::<Vec<_>>(), ["admins"]);
        assert!(grouped.claims().is_some() && plain.claims().is_none());
        assert!(!plain.is_same(&Principal::user("bob").unwrap()));
    }
}
