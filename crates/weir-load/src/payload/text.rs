//! Values of the kinds `base` and `keyed`: timestamp, producer, filler.

use super::random::{Random, push};
use crate::local_time::{LocalTime, TEXT_LEN};

/// Maximum number of prepared texts: so many that a compressor does not find the same text
/// twice in a batch.
const TEXTS: usize = 4096;
/// Maximum memory of the prepared texts; large values get fewer of them.
const POOL_BYTES_MAX: usize = 16 << 20;

/// Generator of `<timestamp>-pid-<producer>-<random text>`; the random texts are prepared in
/// advance.
#[derive(Debug, Clone)]
pub(super) struct TextValues {
    pool: Vec<u8>,
    size: usize,
    next: usize,
    local: LocalTime,
    value: Vec<u8>,
}

impl TextValues {
    /// Prepares texts of `size` characters; the same seed gives the same texts.
    pub(super) fn new(size: usize, seed: u64, local: LocalTime) -> Self {
        let texts = (POOL_BYTES_MAX / size.max(1)).clamp(1, TEXTS);
        let mut pool = vec![0; texts * size];
        Random::new(seed).fill_alphanumeric(&mut pool);
        Self {
            pool,
            size,
            next: 0,
            local,
            value: Vec::with_capacity(TEXT_LEN + "-pid-4294967295-".len() + size),
        }
    }

    /// Creates the value of a record due at `due_unix_ns`; it is valid until the next call.
    pub(super) fn value(&mut self, due_unix_ns: u64, producer: u32) -> &[u8] {
        let mut digits = itoa::Buffer::new();
        let (time, number) = (self.local.format(due_unix_ns), digits.format(producer));
        let text = &self.pool[self.next..self.next + self.size];
        self.value.clear();
        let number = number.as_bytes();
        push(&mut self.value, &[&time, b"-pid-", number, b"-", text]);
        self.next += self.size;
        if self.next >= self.pool.len() {
            self.next = 0;
        }
        &self.value
    }

    pub(super) fn last(&self) -> &[u8] {
        &self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_match_the_published_ones() {
        // size, producer, length
        let rows = [
            (1024, 0, 1054),
            (1024, 9, 1054),
            (1024, 10, 1055),
            (0, 0, 30),
            (1, 123, 33),
        ];
        for (size, producer, length) in rows {
            let mut values = TextValues::new(size, 0, LocalTime::utc());
            for _ in 0..3 {
                assert_eq!(
                    values.value(0, producer).len(),
                    length,
                    "size {size}, pid {producer}"
                );
            }
        }
    }

    #[test]
    fn value_has_the_published_form() {
        let mut values = TextValues::new(8, 0, LocalTime::utc());
        let value = String::from_utf8(values.value(7_000_000, 3).to_vec()).expect("ASCII");
        let filler = value.strip_prefix("1970-01-01 00:00:00.007-pid-3-");
        assert!(filler.is_some_and(|text| text.len() == 8), "{value}");
    }

    #[test]
    fn same_seed_gives_same_texts() {
        let make = |seed| {
            let mut values = TextValues::new(16, seed, LocalTime::utc());
            [(); 3].map(|()| values.value(0, 0).to_vec())
        };
        assert_eq!(make(5), make(5));
        assert_ne!(make(5), make(6));
        let [first, second, _] = make(5);
        assert_ne!(first, second);
    }

    #[test]
    fn pool_is_bounded_and_repeats() {
        let mut values = TextValues::new(1 << 20, 0, LocalTime::utc());
        assert_eq!(values.pool.len(), POOL_BYTES_MAX);
        let first = values.value(0, 0).to_vec();
        for _ in 1..16 {
            values.value(0, 0);
        }
        assert_eq!(values.value(0, 0), first);
        assert_eq!(
            TextValues::new(100 << 20, 0, LocalTime::utc()).pool.len(),
            100 << 20
        );
    }
}
