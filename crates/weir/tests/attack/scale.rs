//! The two scales of attacks, and their distribution over sources.

use std::net::Ipv4Addr;
use std::time::Duration;

/// Size of an attack and duration of each phase.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    pub(crate) is_full: bool,
    /// Duration of the phase with regular clients only.
    pub(crate) baseline: Duration,
    /// Duration of the attack next to regular clients.
    pub(crate) attack: Duration,
}

impl Scale {
    /// Reads the scale from the environment.
    pub(crate) fn from_env() -> Self {
        let is_full = std::env::var("WEIR_ATTACK").is_ok_and(|scale| scale == "full");
        let seconds = |full, small| Duration::from_secs(if is_full { full } else { small });
        Self {
            is_full,
            baseline: seconds(4, 2),
            attack: seconds(10, 3),
        }
    }

    /// Returns `full` or `small` by scale.
    pub(crate) fn pick<T>(&self, full: T, small: T) -> T {
        if self.is_full { full } else { small }
    }
}

/// Sources of an attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// One connection from one address.
    Single,
    /// 100 connections from 20 addresses.
    Split,
}

impl Spread {
    /// Returns the number of attacking connections.
    pub(crate) fn connections(self) -> usize {
        match self {
            Self::Single => 1,
            Self::Split => 100,
        }
    }

    /// Returns the source address of connection `index`.
    pub(crate) fn source(self, index: usize) -> Ipv4Addr {
        match self {
            Self::Single => Ipv4Addr::LOCALHOST,
            Self::Split => Ipv4Addr::new(127, 0, 0, 2 + (index % 20) as u8),
        }
    }

    /// Returns the name used in results.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Single => "1 connection",
            Self::Split => "100 connections, 20 addresses",
        }
    }
}
