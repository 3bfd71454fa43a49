//! Values of the kind `json`: timestamp, filler, key and a number.

use super::text_pool::{TextPool, push_number};
use super::timestamp_text::TimestampText;

/// Characters of the filler; the configured size does not apply.
const TEXT_LEN: usize = 512;

/// Generator of the objects.
#[derive(Debug, Clone)]
pub(super) struct SmallObjects {
    pool: TextPool,
    stamp: TimestampText,
    value: Vec<u8>,
}

impl SmallObjects {
    pub(super) fn new(seed: u64, stamp: TimestampText) -> Self {
        Self {
            pool: TextPool::new(seed),
            stamp,
            value: Vec::new(),
        }
    }

    pub(super) fn make(&mut self, key: &str, due_unix_ns: u64) {
        let at = self.pool.draw(TEXT_LEN);
        let number = self.pool.draw_number();
        let value = &mut self.value;
        value.clear();
        value.extend_from_slice(b"{\"timestamp\":\"");
        self.stamp.push(value, due_unix_ns);
        value.extend_from_slice(b"\",\"fstValue\":\"");
        value.extend_from_slice(self.pool.piece(at, TEXT_LEN));
        // Keys are names of the pool, which need no escaping.
        value.extend_from_slice(b"\",\"sndValue\":\"");
        value.extend_from_slice(key.as_bytes());
        value.extend_from_slice(b"\",\"intNum\":");
        push_number(value, number);
        value.push(b'}');
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.value
    }
}
