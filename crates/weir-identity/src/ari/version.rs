//! Protocol versions and what an adapter supports.

use super::error::AriError;

/// Encoding of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextEncoding {
    /// As in HTML forms: a plus is a space.
    Form,
    /// Only separators are escaped.
    Smart,
}

/// Protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AriVersion {
    /// 1.8.0: adapters that do not name a version.
    V180,
    /// 1.8.3.
    V183,
    /// 1.9.1.
    V191,
}

impl AriVersion {
    /// The version that the gateway asks for.
    pub const LATEST: Self = Self::V191;

    /// Returns the text of the parameter `ARI.version`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V180 => "1.8.0",
            Self::V183 => "1.8.3",
            Self::V191 => "1.9.1",
        }
    }

    /// Parses the version of a reply to the first request.
    pub(super) fn parse(text: &str) -> Result<Self, AriError> {
        let mut all = [Self::V183, Self::V191].into_iter();
        let found = all.find(|version| version.as_str() == text);
        found.ok_or(AriError::Version)
    }

    pub(super) fn encoding(self) -> TextEncoding {
        match self {
            Self::V180 | Self::V183 => TextEncoding::Form,
            Self::V191 => TextEncoding::Smart,
        }
    }

    pub(super) fn is_1_9(self) -> bool {
        self == Self::V191
    }
}

/// An adapter that is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterPeer {
    /// Agreed version.
    pub version: AriVersion,
    /// The SDK for Node.js: it cannot read a list of items in tables.
    pub is_node: bool,
    /// The adapter asked for the line `CLOSE`.
    pub wants_close: bool,
}

impl AdapterPeer {
    /// Returns `true` if the adapter understands the line `CLOSE`.
    pub fn understands_close(&self) -> bool {
        self.wants_close || self.version >= AriVersion::V183
    }
}
