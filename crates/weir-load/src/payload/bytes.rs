//! Values of the kind `random`: as many bytes as asked for, as compressible as asked for.

use super::random::Random;

/// Blocks of which the first part is random and the rest is not; a compressor finds the rest and
/// nothing else.
const BLOCK: usize = 64;
/// What the rest of a block consists of.
const FILLER: u8 = b'-';
/// Larger than the batches of a producer, so that hardly two records of one share anything.
const POOL_BYTES: usize = 16 << 20;

/// Takes pieces out of a pool that was filled beforehand.
#[derive(Debug, Clone)]
pub(super) struct ByteValues {
    pool: Box<[u8]>,
    size: usize,
    at: usize,
    random: Random,
}

impl ByteValues {
    /// `entropy` is the share of random bytes: 1 can not be compressed, 0 is one byte repeated.
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

    /// Draws the next value. Pieces begin with a block, so that each has the same share.
    pub(super) fn make(&mut self) {
        let blocks = (self.pool.len() - self.size) / BLOCK;
        // At most 2^18 blocks: the pool is of 16 MiB, or one record's size and a block.
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
    fn values_have_the_size_and_the_share_of_random_bytes() {
        for size in [0, 1, 100, 6400] {
            assert_eq!(value(size, 1.0).len(), size);
        }
        let filler = |entropy: f64| {
            let value = value(6400, entropy);
            value.iter().filter(|byte| **byte == FILLER).count()
        };
        assert_eq!(filler(0.0), 6400);
        // A random byte is the filler once in 256.
        assert!((3150..3300).contains(&filler(0.5)), "{}", filler(0.5));
        assert!(filler(1.0) < 60, "{}", filler(1.0));
    }

    #[test]
    fn one_value_is_not_like_the_next() {
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
