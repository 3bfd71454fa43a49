//! Bytes that replace others: collected first, put together once.

use std::ops::Range;

/// Replacements for ranges of one piece of bytes. The ranges must not overlap; an empty range
/// inserts, and what is inserted at one place keeps its order.
#[derive(Debug, Default)]
pub struct ByteEdits {
    rows: Vec<(Range<usize>, Range<usize>)>,
    bytes: Vec<u8>,
}

impl ByteEdits {
    /// Forgets all and keeps up to `keep_bytes` of memory.
    pub fn clear(&mut self, keep_bytes: usize) {
        self.rows.clear();
        self.bytes.clear();
        self.bytes.shrink_to(keep_bytes);
    }

    /// Whether there is nothing to replace.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Number of replacements so far, for [`Self::truncate`].
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the bytes collected so far.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets the replacements behind the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.rows.truncate(len);
    }

    /// Replaces `at` by what `write` appends; gives its length.
    pub fn replace(&mut self, at: Range<usize>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let length = self.bytes.len() - start;
        self.rows.push((at, start..start + length));
        length
    }

    /// Replaces `at` by what `write` appends if it says so; gives its length then.
    pub fn replace_if(
        &mut self,
        at: Range<usize>,
        write: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> Option<usize> {
        let start = self.bytes.len();
        if !write(&mut self.bytes) {
            self.bytes.truncate(start);
            return None;
        }
        let end = self.bytes.len();
        self.rows.push((at, start..end));
        Some(end - start)
    }

    /// Takes `at` out.
    pub fn remove(&mut self, at: Range<usize>) {
        self.rows.push((at, 0..0));
    }

    /// Appends `bytes` with all replacements to `out`.
    pub fn apply(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        // A stable sort: insertions at one place stay in order.
        self.rows.sort_by_key(|(at, _)| at.start);
        let mut from = 0;
        for (at, with) in &self.rows {
            debug_assert!(from <= at.start, "patches overlap");
            out.extend_from_slice(&bytes[from..at.start]);
            out.extend_from_slice(&self.bytes[with.clone()]);
            from = at.end;
        }
        out.extend_from_slice(&bytes[from..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_insertions_and_removals_in_any_order() {
        let mut patches = ByteEdits::default();
        patches.remove(6..8);
        patches.replace(3..3, |out| out.extend_from_slice(b"<1>"));
        patches.replace(3..3, |out| out.extend_from_slice(b"<2>"));
        assert_eq!(patches.replace(0..2, |out| out.push(b'x')), 1);
        let mark = patches.len();
        patches.remove(4..5);
        patches.truncate(mark);
        let mut out = b"=".to_vec();
        patches.apply(b"0123456789", &mut out);
        assert_eq!(out, b"=x2<1><2>34589");
        patches.clear(0);
        assert!(patches.is_empty());
    }
}
