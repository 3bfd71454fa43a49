//! Choices from the bytes of a fuzzer.

/// Bytes that decide; zeros after the end.
pub(crate) struct Source<'a>(pub(crate) &'a [u8]);

impl<'a> Source<'a> {
    pub(crate) fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    /// Returns a number below `end`, which is at most 256.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        usize::from(self.byte()) % end
    }

    /// Returns up to `count` bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Returns a number of up to 64 bits, often a small one.
    pub(crate) fn number(&mut self) -> u64 {
        let length = self.below(9);
        let bytes = self.bytes(length).iter();
        bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    /// Returns a text of up to 20 bytes.
    pub(crate) fn text(&mut self) -> String {
        let length = self.below(21);
        String::from_utf8_lossy(self.bytes(length)).into_owned()
    }
}

/// Calls `check` with inputs that are the same in each run.
#[cfg(test)]
pub(crate) fn random_inputs(count: usize, bytes_max: usize, check: &mut dyn FnMut(&[u8])) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state >> 8
    };
    for _ in 0..count {
        let length = next() as usize % bytes_max;
        let input: Vec<_> = (0..length).map(|_| next() as u8).collect();
        check(&input);
    }
}
