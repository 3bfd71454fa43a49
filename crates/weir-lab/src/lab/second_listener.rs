//! Second listeners of brokers.

/// A listener that advertises another port than its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SecondListener {
    /// Port of the broker.
    pub port: u16,
    /// Port advertised to clients.
    pub advertised_port: u16,
}
