//! Reproducible random numbers and text: the same seed gives the same run on every machine and
//! version.

use crate::local_time::LocalTime;

/// SplitMix64 (Steele, Lea, Flood 2014): fast, and uniform enough for filler text and key choice.
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `bound`, uniform to one part in 2^32; 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        // The high half of a 32 x 32 bit product is below the bound.
        (((self.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }

    pub(super) fn fill_alphanumeric(&mut self, out: &mut [u8]) {
        for byte in out {
            *byte = ALPHANUMERIC[self.below(ALPHANUMERIC.len() as u32) as usize];
        }
    }
}

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

/// Prefix of the timestamp of records that count for latency, if others are background.
pub const MARK: &str = "PREFIX-";

/// Random text and timestamps of JSON values, and the last value.
#[derive(Debug, Clone)]
pub(super) struct JsonText {
    pub(super) pool: TextPool,
    local: LocalTime,
    marked: bool,
    pub(super) value: Vec<u8>,
}

impl JsonText {
    pub(super) fn new(seed: u64, local: LocalTime, marked: bool) -> Self {
        Self {
            pool: TextPool::new(seed),
            local,
            marked,
            value: Vec::new(),
        }
    }

    /// Appends the timestamp, with the mark if the records have it.
    pub(super) fn push_time(&mut self, out: &mut Vec<u8>, due_unix_ns: u64) {
        let mark = if self.marked { MARK } else { "" };
        push(out, &[mark.as_bytes(), &self.local.format(due_unix_ns)]);
    }
}

pub(super) fn push(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

pub(super) fn push_number(out: &mut Vec<u8>, number: i32) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Size of the text. A piece may start anywhere, so that pieces of a run rarely repeat.
const POOL_BYTES: usize = 1 << 20;
const ALPHANUMERIC: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_matches_the_published_one() {
        let mut random = Random::new(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn forty_keys_are_equally_likely() {
        let mut random = Random::new(1);
        let mut counts = [0_u32; 40];
        for _ in 0..40_000 {
            counts[random.below(40) as usize] += 1;
        }
        // 1000 each, standard deviation 31; five of them are allowed.
        assert!(
            counts.iter().all(|count| (845..=1155).contains(count)),
            "{counts:?}"
        );
        assert_eq!(random.below(0), 0);
    }

    #[test]
    fn filler_uses_all_alphanumeric_characters() {
        let mut text = vec![0; 4000];
        Random::new(7).fill_alphanumeric(&mut text);
        assert!(text.iter().all(u8::is_ascii_alphanumeric));
        text.sort_unstable();
        text.dedup();
        assert_eq!(text.len(), 62);
    }
}
