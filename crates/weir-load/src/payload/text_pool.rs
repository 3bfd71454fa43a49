//! Random text and numbers of JSON objects.

use super::random::Random;

/// Random text from which records take pieces.
#[derive(Debug, Clone)]
pub(super) struct TextPool {
    text: Box<[u8]>,
    pub(super) random: Random,
}

impl TextPool {
    pub(super) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut text = vec![0; POOL_BYTES].into_boxed_slice();
        random.fill_alphanumeric(&mut text);
        Self { text, random }
    }

    /// Returns the start of a random piece of `len` characters.
    pub(super) fn draw(&mut self, len: usize) -> usize {
        self.random.below((POOL_BYTES - len) as u32) as usize
    }

    pub(super) fn piece(&self, at: usize, len: usize) -> &[u8] {
        &self.text[at..at + len]
    }

    /// Returns a random number as Java's generator does: any 32 bits, with sign.
    pub(super) fn draw_number(&mut self) -> i32 {
        self.random.next_u64() as i32
    }
}

/// Size of the text. A piece may start anywhere, so that pieces of a run rarely repeat.
const POOL_BYTES: usize = 1 << 20;

/// Appends a number in decimal.
pub(super) fn push_number(out: &mut Vec<u8>, number: i32) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}
