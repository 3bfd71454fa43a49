//! Random text and timestamps of JSON values, and the buffer for the value.

use super::random::TextPool;
use crate::local_time::LocalTime;

/// Prefix of the timestamp of records that count for latency, if others are background.
pub const MARK: &str = "PREFIX-";

/// Random text, timestamp and the last value.
#[derive(Debug, Clone)]
pub(super) struct JsonText {
    pub(super) pool: TextPool,
    local: LocalTime,
    marked: bool,
    pub(super) value: Vec<u8>,
}

impl JsonText {
    pub(super) fn new(seed: u64, local: LocalTime, marked: bool) -> Self {
        Self {
            pool: TextPool::new(seed),
            local,
            marked,
            value: Vec::new(),
        }
    }

    /// Appends the timestamp, with the mark if the records have it.
    pub(super) fn push_time(&mut self, out: &mut Vec<u8>, due_unix_ns: u64) {
        let mark = if self.marked { MARK } else { "" };
        push(out, &[mark.as_bytes(), &self.local.format(due_unix_ns)]);
    }
}

pub(super) fn push(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

/// Appends a number in decimal.
pub(super) fn push_number(out: &mut Vec<u8>, number: i32) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
