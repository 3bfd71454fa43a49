//! Operations of the drivers.

use crate::experiment::names::names;

/// Operation that a cell measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DriverOperation {
    Produce,
    Consume,
    RoundTrip,
}

names!(pub(super) DriverOperation, "operation": Produce = "produce", Consume = "consume",
    RoundTrip = "roundtrip");
