//! What leaves after some input was looked at: ranges of that input, and bytes made anew.

use std::ops::Range;

use smallvec::SmallVec;

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Segment {
    /// These bytes of the input, untouched or edited in place.
    Input(Range<usize>),
    /// Bytes of their own.
    Made(Vec<u8>),
}

/// Output in order. Neighbouring ranges are one, so that a buffer full of frames that nobody wanted
/// leaves as it came.
#[derive(Debug, Default)]
pub struct Segments {
    list: SmallVec<[Segment; 4]>,
}

impl Segments {
    /// Appends bytes of the input.
    pub fn input(&mut self, range: Range<usize>) {
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

    /// Appends bytes of their own.
    pub fn made(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            self.list.push(Segment::Made(bytes));
        }
    }

    /// Whether there is nothing to send.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The pieces in order, as slices of `input` or their own.
    pub fn slices<'a>(&'a self, input: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.list.iter().map(move |segment| match segment {
            Segment::Input(range) => &input[range.clone()],
            Segment::Made(bytes) => bytes,
        })
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.list.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one() {
        let mut out = Segments::default();
        out.input(0..2);
        out.input(2..4);
        out.made(vec![9]);
        out.input(6..7);
        out.made(Vec::new());
        out.input(7..7);
        let slices: Vec<_> = out.slices(&[0, 1, 2, 3, 4, 5, 6, 7]).collect();
        assert_eq!(slices, [&[0, 1, 2, 3][..], &[9], &[6]]);
        out.clear();
        assert!(out.is_empty());
    }
}
