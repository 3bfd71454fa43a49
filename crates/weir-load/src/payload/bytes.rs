//! Values of the kind `random`: bytes of a given number and compressibility.

use super::random::Random;

/// Length of the blocks. The first part of a block is random; a compressor can shorten only the
/// rest.
const BLOCK: usize = 64;
/// Byte that fills the rest of a block.
const FILLER: u8 = b'-';
/// Larger than the batches of a producer, so that two records of a batch rarely have bytes in
/// common.
const POOL_BYTES: usize = 16 << 20;

/// Random values, cut from a pool that is filled in advance.
#[derive(Debug, Clone)]
pub(super) struct ByteValues {
    pool: Box<[u8]>,
    size: usize,
    at: usize,
    random: Random,
}

impl ByteValues {
    /// Creates values of `size` bytes. `entropy` is the share of random bytes: a value of entropy 1
    /// cannot be compressed, 0 is one byte repeated.
    pub(super) fn new(size: usize, entropy: f64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut pool = vec![FILLER; POOL_BYTES.max(size + BLOCK)].into_boxed_slice();
        let share = (entropy.clamp(0.0, 1.0) * BLOCK as f64).round() as usize;
        for block in pool.chunks_mut(BLOCK) {
            let random_bytes = share.min(block.len());
            for eight in block[..random_bytes].chunks_mut(8) {
                let bytes = random.next_u64().to_le_bytes();
                let length = eight.len();
                eight.copy_from_slice(&bytes[..length]);
            }
        }
        Self {
            pool,
            size,
            at: 0,
            random,
        }
    }

    /// Draws the next value. Values start at a block, so that all have the same share of random
    /// bytes.
    pub(super) fn make(&mut self) {
        let blocks = (self.pool.len() - self.size) / BLOCK;
        // At most 2^18 blocks: the pool has 16 MiB, or the size of one record and a block.
        self.at = self.random.below(blocks as u32) as usize * BLOCK;
    }

    pub(super) fn value(&self) -> &[u8] {
        &self.pool[self.at..self.at + self.size]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(size: usize, entropy: f64) -> Vec<u8> {
        let mut values = ByteValues::new(size, entropy, 5);
        values.make();
        values.value().to_vec()
    }

    #[test]
    fn values_have_given_size_and_random_share() {
        for size in [0, 1, 100, 6400] {
            assert_eq!(value(size, 1.0).len(), size);
        }
        let filler = |entropy: f64| {
            let value = value(6400, entropy);
            value.iter().filter(|byte| **byte == FILLER).count()
        };
        assert_eq!(filler(0.0), 6400);
        // A random byte equals the filler once in 256.
        assert!((3150..3300).contains(&filler(0.5)), "{}", filler(0.5));
        assert!(filler(1.0) < 60, "{}", filler(1.0));
    }

    #[test]
    fn consecutive_values_differ() {
        let mut values = ByteValues::new(1000, 0.5, 1);
        let mut make = || {
            values.make();
            values.value().to_vec()
        };
        assert_ne!(make(), make());
        let large = ByteValues::new(POOL_BYTES + 1, 0.1, 1);
        assert_eq!(large.value().len(), POOL_BYTES + 1);
    }
}
