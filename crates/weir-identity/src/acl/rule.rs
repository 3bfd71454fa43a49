//! One access rule.

use std::fmt;

use super::address::AddressRange;
use super::operation::{AclOperation, ResourceType};

/// Effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Allows.
    Allow,
    /// Denies.
    Deny,
}

/// Names of resources.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum NamePattern {
    /// Any name.
    Any,
    /// This name.
    Literal(Box<str>),
    /// Names that begin with this text.
    Prefix(Box<str>),
}

impl NamePattern {
    /// Reads a name of a configuration file: `*` is any name, `text*` a prefix.
    pub fn from_config(text: &str) -> Self {
        match text.strip_suffix('*') {
            Some("") => Self::Any,
            Some(prefix) => Self::Prefix(prefix.into()),
            None => Self::Literal(text.into()),
        }
    }

    /// Returns `true` if the pattern contains the name.
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Literal(literal) => **literal == *name,
            Self::Prefix(prefix) => name.starts_with(&**prefix),
        }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Literal(name) => f.write_str(name),
            Self::Prefix(prefix) => write!(f, "{prefix}*"),
        }
    }
}

/// An ACL: a principal at an address may, or may not, do something with resources.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AclRule {
    /// Principal as `User:name`; [`Self::ANYONE`] for all.
    pub principal: Box<str>,
    /// Addresses of clients.
    pub addresses: AddressRange,
    /// Operation.
    pub operation: AclOperation,
    /// Effect.
    pub effect: Effect,
    /// Type of the resources.
    pub resource_type: ResourceType,
    /// Names of the resources.
    pub names: NamePattern,
    /// Origin of the rule, such as a file with its line.
    pub origin: Box<str>,
}

impl AclRule {
    /// Principal of rules for everyone.
    pub const ANYONE: &'static str = "User:*";
    /// Name of the cluster as a resource.
    pub const CLUSTER: &'static str = "kafka-cluster";
}

impl fmt::Display for AclRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect {
            Effect::Allow => "allow",
            Effect::Deny => "deny",
        };
        let (principal, operation) = (&self.principal, self.operation);
        let (resource_type, names) = (self.resource_type, &self.names);
        write!(f, "{effect} {principal}")?;
        if self.addresses != AddressRange::Any {
            write!(f, " from {}", self.addresses)?;
        }
        write!(
            f,
            " {operation} on {resource_type} {names} ({})",
            self.origin
        )
    }
}
