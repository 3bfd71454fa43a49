//! Changes of a record, and the buffer that contains new values and headers.

use std::ops::Range;

/// The changes of filters. Ranges refer to the replacement buffer.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The batch was edited in place.
    pub(super) edited: bool,
    pub(super) value: Option<Range<usize>>,
    pub(super) headers: Option<Range<usize>>,
}

/// New values and headers whose length differs from the replaced ones.
#[derive(Debug, Default)]
pub(super) struct ReplacementBuffer {
    pub(super) bytes: Vec<u8>,
    /// Value or header list being written.
    pub(super) fresh: Vec<u8>,
    pub(super) undecodable: u64,
}

impl ReplacementBuffer {
    pub(super) fn keep(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}
