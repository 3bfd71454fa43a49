//! Identifiers of registered schemas.

use std::fmt;
use std::sync::Arc;

/// Identifier of a schema in a registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SchemaId {
    /// Number, unique in a Confluent registry.
    Number(i32),
    /// Identifier that is the same in all Confluent registries.
    Guid(u128),
    /// Identifier of an Azure registry: letters, digits, `-` and `_`.
    Name(Arc<str>),
}

/// A [`SchemaId`] that borrows from a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaKey<'a> {
    Number(i32),
    Guid(u128),
    Name(&'a str),
}

impl SchemaKey<'_> {
    pub(crate) fn to_id(self) -> SchemaId {
        match self {
            Self::Number(number) => SchemaId::Number(number),
            Self::Guid(guid) => SchemaId::Guid(guid),
            Self::Name(name) => SchemaId::Name(name.into()),
        }
    }

    pub(crate) fn is(self, id: &SchemaId) -> bool {
        match (self, id) {
            (Self::Number(number), SchemaId::Number(other)) => number == *other,
            (Self::Guid(guid), SchemaId::Guid(other)) => guid == *other,
            (Self::Name(name), SchemaId::Name(other)) => *name == **other,
            _ => false,
        }
    }
}

impl fmt::Display for SchemaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Guid(guid) => {
                let digits = format!("{guid:032x}");
                let groups = [
                    &digits[..8],
                    &digits[8..12],
                    &digits[12..16],
                    &digits[16..20],
                ];
                write!(f, "{}-{}", groups.join("-"), &digits[20..])
            }
            Self::Name(name) => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guid_is_shown_in_groups() {
        let guid = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
        let text = SchemaId::Guid(guid).to_string();
        assert_eq!(text, "01020304-0506-0708-090a-0b0c0d0e0f10");
        assert_eq!(SchemaId::Number(-1).to_string(), "-1");
    }

    #[test]
    fn keys_equal_ids_of_same_kind() {
        for key in [
            SchemaKey::Number(7),
            SchemaKey::Guid(7),
            SchemaKey::Name("7"),
        ] {
            assert!(key.is(&key.to_id()));
        }
        assert!(!SchemaKey::Number(7).is(&SchemaId::Guid(7)));
    }
}
