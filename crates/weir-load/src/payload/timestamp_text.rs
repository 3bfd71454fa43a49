//! Timestamp members of JSON objects.

use crate::local_time::LocalTime;

/// Prefix of the timestamp of records that count for latency, if others are background.
pub const MARK: &str = "PREFIX-";

/// Writer of the timestamp members of objects.
#[derive(Debug, Clone)]
pub(super) struct TimestampText {
    pub(super) local: LocalTime,
    pub(super) marked: bool,
}

impl TimestampText {
    pub(super) fn push(&mut self, out: &mut Vec<u8>, due_unix_ns: u64) {
        if self.marked {
            out.extend_from_slice(MARK.as_bytes());
        }
        out.extend_from_slice(&self.local.format(due_unix_ns));
    }
}
