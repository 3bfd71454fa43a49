//! Frames that wait, and requests that are partly received.

use super::filter_pool::Cancel;
use crate::wire::Unfinished;

/// The reason why a frame waits. Later frames of its direction wait behind it.
#[derive(Debug)]
pub(super) enum WaitReason {
    /// A delay until this time, in milliseconds.
    Until(u64, Vec<u8>),
    /// Filter work that waits for memory.
    Unfinished(Unfinished),
    /// Filter work in the filter threads, with the size of the frame in bytes.
    Working(
        usize,
        #[expect(dead_code, reason = "dropping it cancels the task")] Cancel,
    ),
}

impl WaitReason {
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Until(_, frame) => frame.len(),
            Self::Unfinished(unfinished) => unfinished.frame.len(),
            Self::Working(bytes, _) => *bytes,
        }
    }

    /// Returns the time at which the wait ends, if it is known.
    pub(super) fn until_ms(&self) -> Option<u64> {
        match self {
            Self::Until(at_ms, _) => Some(*at_ms),
            Self::Unfinished(_) | Self::Working(..) => None,
        }
    }
}

/// The start of a partly received request.
#[derive(Debug, Clone, Copy)]
pub(super) struct SlowFrame {
    /// Number of requests before it.
    pub(super) counted: u64,
    /// Bytes of all requests at the last check.
    pub(super) bytes: u64,
    /// Time by which it must have made progress.
    pub(super) until_ms: u64,
    /// The proxy did not read for part of the time.
    pub(super) paused: bool,
}
