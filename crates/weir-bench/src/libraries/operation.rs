//! Operations of the drivers.

/// Operation that a cell measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum DriverOperation {
    Produce,
    Consume,
    RoundTrip,
}

impl DriverOperation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Consume => "consume",
            Self::RoundTrip => "roundtrip",
        }
    }
}
