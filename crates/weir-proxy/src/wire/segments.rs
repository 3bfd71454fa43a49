//! The output for some input: ranges of the input and new frames.

use std::ops::Range;

use smallvec::SmallVec;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Segment {
    /// A range of the input, unchanged or edited in place.
    Input(Range<usize>),
    Owned(Vec<u8>),
}

/// Output segments in order. Adjacent ranges are merged, so that a buffer of unchanged frames is
/// one segment.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    list: SmallVec<[Segment; 4]>,
}

impl Segments {
    pub(crate) fn push_input(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if let Some(Segment::Input(last)) = self.list.last_mut() {
            if last.end == range.start {
                last.end = range.end;
                return;
            }
        }
        self.list.push(Segment::Input(range));
    }

    pub(crate) fn push_owned(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.list.push(Segment::Owned(bytes));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the segments in order, as slices of `input` or of new frames.
    pub(crate) fn slices<'a>(&'a self, input: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.list.iter().map(move |segment| match segment {
            Segment::Input(range) => &input[range.clone()],
            Segment::Owned(bytes) => bytes,
        })
    }

    pub(crate) fn clear(&mut self) {
        self.list.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adjacent_ranges_are_merged() {
        let mut out = Segments::default();
        out.push_input(0..2);
        out.push_input(2..4);
        out.push_owned(vec![9]);
        out.push_input(6..7);
        out.push_owned(Vec::new());
        out.push_input(7..7);
        let slices: Vec<_> = out.slices(&[0, 1, 2, 3, 4, 5, 6, 7]).collect();
        assert_eq!(slices, [&[0, 1, 2, 3][..], &[9], &[6]]);
        out.clear();
        assert!(out.is_empty());
    }
}
