//! Collects replacements of byte ranges and applies them at once.

use std::ops::Range;

/// Replacements of byte ranges. Ranges must not overlap. An empty range inserts; insertions at the
/// same position keep their order.
#[derive(Debug, Default)]
pub struct ByteEdits {
    rows: Vec<(Range<usize>, Range<usize>)>,
    bytes: Vec<u8>,
}

impl ByteEdits {
    /// Removes all replacements and frees memory beyond `keep_bytes`.
    pub fn clear(&mut self, keep_bytes: usize) {
        self.rows.clear();
        self.bytes.clear();
        self.bytes.shrink_to(keep_bytes);
    }

    /// Returns `true` if there are no replacements.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Returns the number of replacements, for [`Self::truncate`].
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns the size of all replacement bytes.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Removes all replacements after the first `len`.
    pub fn truncate(&mut self, len: usize) {
        self.rows.truncate(len);
    }

    /// Replaces `at` by the bytes that `write` appends. Returns their number.
    pub fn replace(&mut self, at: Range<usize>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
        let replaced = self.replace_if(at, |out| {
            write(out);
            true
        });
        replaced.unwrap_or(0)
    }

    /// Replaces `at` by the bytes that `write` appends, if it returns `true`. Returns their number,
    /// or `None` if nothing was replaced.
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

    /// Removes the range `at`.
    pub fn remove(&mut self, at: Range<usize>) {
        self.rows.push((at, 0..0));
    }

    /// Appends `bytes` with all replacements to `out`.
    pub fn apply(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        // A stable sort, because insertions at the same position must keep their order.
        self.rows.sort_by_key(|(at, _)| at.start);
        let mut from = 0;
        for (at, with) in &self.rows {
            debug_assert!(from <= at.start, "edits overlap");
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
    fn edits_apply_in_any_order() {
        let mut edits = ByteEdits::default();
        edits.remove(6..8);
        edits.replace(3..3, |out| out.extend_from_slice(b"<1>"));
        edits.replace(3..3, |out| out.extend_from_slice(b"<2>"));
        assert_eq!(edits.replace(0..2, |out| out.push(b'x')), 1);
        let count = edits.len();
        edits.remove(4..5);
        edits.truncate(count);
        let mut out = b"=".to_vec();
        edits.apply(b"0123456789", &mut out);
        assert_eq!(out, b"=x2<1><2>34589");
        edits.clear(0);
        assert!(edits.is_empty());
    }
}
