//! A latency histogram of about 200 bytes, so that each of tens of thousands of clients has one.

/// Values below 2^4 us share the first bucket.
const FIRST_OCTAVE: u32 = 4;
/// Values of at least 2^26 us (67 s) share the last bucket.
const LAST_OCTAVE: u32 = 26;
const STEPS_PER_OCTAVE: u32 = 4;
const BUCKETS: usize = ((LAST_OCTAVE - FIRST_OCTAVE) * STEPS_PER_OCTAVE) as usize + 2;

/// A coarse latency histogram with four buckets per power of two from 16 us to 67 s.
///
/// Percentiles are accurate to about 12 %, which is enough to compare clients with each other.
/// Percentiles over all clients come from [`Histogram`](crate::Histogram).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactHistogram {
    counts: [u16; BUCKETS],
    /// Binary logarithm of the number of values per count; increases when a count would overflow.
    scale: u8,
    /// Values since the last counted one, below `2^scale`.
    pending: u32,
    count: u64,
    max_us: u32,
}

impl Default for CompactHistogram {
    fn default() -> Self {
        Self {
            counts: [0; BUCKETS],
            scale: 0,
            pending: 0,
            count: 0,
            max_us: 0,
        }
    }
}

impl CompactHistogram {
    /// Records one value in nanoseconds.
    pub fn record_ns(&mut self, value_ns: u64) {
        let value_us = value_ns / 1000;
        self.count += 1;
        self.max_us = self.max_us.max(u32::try_from(value_us).unwrap_or(u32::MAX));
        self.pending += 1;
        if self.pending < 1 << self.scale {
            return;
        }
        self.pending = 0;
        let bucket = bucket_of(value_us);
        if self.counts[bucket] == u16::MAX {
            self.halve();
        }
        self.counts[bucket] += 1;
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the largest value in microseconds, exact up to 71 minutes; 0 if empty.
    pub fn max_us(&self) -> u64 {
        u64::from(self.max_us)
    }

    /// Returns the value at `percentile` (0 to 100) in microseconds, as the middle of its bucket;
    /// `None` if empty.
    pub fn percentile_us(&self, percentile: f64) -> Option<u64> {
        let total: u64 = self.counts.iter().map(|count| u64::from(*count)).sum();
        if total == 0 {
            return None;
        }
        let share = percentile.clamp(0.0, 100.0) / 100.0;
        let rank = ((share * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        });
        // Invariant: rank <= total, so some bucket reaches it.
        let middle_us = middle_us(bucket.unwrap_or(BUCKETS - 1));
        Some(middle_us.min(self.max_us()))
    }

    /// Halves all counts, rounding up so that a rare high value is not lost.
    fn halve(&mut self) {
        self.scale += 1;
        for count in &mut self.counts {
            *count = count.div_ceil(2);
        }
    }
}

fn bucket_of(value_us: u64) -> usize {
    if value_us < 1 << FIRST_OCTAVE {
        return 0;
    }
    let octave = value_us.ilog2();
    if octave >= LAST_OCTAVE {
        return BUCKETS - 1;
    }
    let step = (value_us >> (octave - 2)) & u64::from(STEPS_PER_OCTAVE - 1);
    1 + ((octave - FIRST_OCTAVE) * STEPS_PER_OCTAVE) as usize + step as usize
}

fn middle_us(bucket: usize) -> u64 {
    if bucket == 0 {
        return 1 << (FIRST_OCTAVE - 1);
    }
    if bucket == BUCKETS - 1 {
        return u64::MAX;
    }
    let index = bucket as u64 - 1;
    let octave = FIRST_OCTAVE as u64 + index / u64::from(STEPS_PER_OCTAVE);
    let width_us = 1_u64 << (octave - 2);
    (1 << octave) + index % u64::from(STEPS_PER_OCTAVE) * width_us + width_us / 2
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn size_is_small() {
        assert!(
            size_of::<CompactHistogram>() <= 208,
            "{}",
            size_of::<CompactHistogram>()
        );
    }

    #[test]
    fn empty_has_no_percentile() {
        assert_eq!(CompactHistogram::default().percentile_us(99.0), None);
    }

    #[test]
    fn high_value_survives_halving() {
        let mut histogram = CompactHistogram::default();
        for _ in 0..500_000 {
            histogram.record_ns(1_000_000);
        }
        histogram.record_ns(30_000_000_000);
        assert_eq!(histogram.count(), 500_001);
        let p99_us = histogram.percentile_us(99.0).unwrap();
        assert!((896..=1152).contains(&p99_us), "{p99_us}");
        assert_eq!(histogram.max_us(), 30_000_000);
    }

    #[test]
    fn buckets_increase_with_the_value() {
        let mut last = 0;
        for value_us in 0..100_000_u64 {
            let bucket = bucket_of(value_us);
            assert!(bucket == last || bucket == last + 1, "{value_us}");
            last = bucket;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    proptest! {
        #[test]
        fn percentile_error_is_below_an_eighth(value_us in 16_u64..60_000_000) {
            let mut histogram = CompactHistogram::default();
            histogram.record_ns(value_us * 1000);
            let read_us = histogram.percentile_us(50.0).unwrap();
            let difference_us = read_us.abs_diff(value_us);
            prop_assert!(difference_us * 8 <= value_us + 8, "{read_us} for {value_us}");
        }
    }
}
