//! Architectures that a plan compares.

use serde::Deserialize;

/// Way in which records reach the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Architecture {
    /// Every client is the only member of its own consumer group.
    Groups,
    /// Every client is a plain consumer with assigned partitions and no group.
    Standalone,
    /// TLCP clients of the gateway.
    Gateway,
    /// Plain sockets of the baseline server.
    Floor,
}

impl Architecture {
    /// All architectures, in display order.
    pub const ALL: [Self; 4] = [Self::Groups, Self::Standalone, Self::Gateway, Self::Floor];

    /// Returns the name used in plans, on the command line and in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Groups => "groups",
            Self::Standalone => "standalone",
            Self::Gateway => "gateway",
            Self::Floor => "floor",
        }
    }
}

impl std::str::FromStr for Architecture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL
            .into_iter()
            .find(|architecture| architecture.name() == text);
        found.ok_or_else(|| {
            format!(
                "unknown architecture \"{text}\", expected groups, standalone, gateway or floor"
            )
        })
    }
}
