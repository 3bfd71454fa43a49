//! Cells of a sweep.

/// Cell of a sweep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepCell {
    Produce { size: u64, target: u64 },
    Consume { fetch_size: u64 },
}

/// Program that measures a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measurer {
    Weir,
    Kafka,
}
