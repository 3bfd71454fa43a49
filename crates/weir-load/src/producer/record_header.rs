//! Additional headers of records.

use std::str::FromStr;

/// Header whose value may contain the key of the record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordHeader {
    pub(super) name: String,
    value: String,
}

/// Error for a header without a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected NAME=VALUE, for example channel={{key}}")]
pub struct NoHeader;

impl FromStr for RecordHeader {
    type Err = NoHeader;

    fn from_str(text: &str) -> Result<Self, NoHeader> {
        let (name, value) = text.split_once('=').ok_or(NoHeader)?;
        match name {
            "" => Err(NoHeader),
            _ => Ok(Self {
                name: name.to_owned(),
                value: value.to_owned(),
            }),
        }
    }
}

impl RecordHeader {
    /// Returns the value for a record with a key.
    pub(super) fn value(&self, key: Option<&[u8]>) -> Vec<u8> {
        let mut parts = self.value.split(KEY);
        let mut value = parts.next().unwrap_or_default().as_bytes().to_vec();
        for part in parts {
            value.extend_from_slice(key.unwrap_or_default());
            value.extend_from_slice(part.as_bytes());
        }
        value
    }
}

/// Placeholder for the key of the record.
const KEY: &str = "{key}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_contain_the_key() {
        let header: RecordHeader = "to=a-{key}={key}".parse().unwrap();
        assert_eq!(header.name, "to");
        assert_eq!(header.value(Some(b"K\xff")), b"a-K\xff=K\xff");
        assert_eq!(header.value(None), b"a-=");
        for wrong in ["", "=x", "x"] {
            assert_eq!(wrong.parse::<RecordHeader>(), Err(NoHeader));
        }
    }
}
