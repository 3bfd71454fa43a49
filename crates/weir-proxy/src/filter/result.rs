//! The result of filtering a frame.

use std::time::Duration;

use super::rejected::RejectedPartitions;

/// The result of filtering a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterResult {
    /// Bytes to forward.
    pub output: FrameOutput,
    /// Delay of the frame and everything after it.
    pub delay: Duration,
    /// Partitions that are not forwarded and whose producer expects a response.
    pub rejected: Option<RejectedPartitions>,
}

/// The bytes of a frame to forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameOutput {
    /// The frame, possibly edited in place.
    InPlace,
    /// The frame in [`FilterBuffers::frame`](super::FilterBuffers::frame).
    Rebuilt,
    /// Nothing: no partition is left.
    Nothing,
}
