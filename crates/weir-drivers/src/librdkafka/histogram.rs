//! Histogram in the resolution of the protocol: whole microseconds, three digits.

use crate::ReportedDistribution;

/// Growing histogram. Recording rarely allocates and needs no search.
#[derive(Debug, Default)]
pub(super) struct DriverHistogram {
    count: u64,
    sum_us: u64,
    min_us: u64,
    max_us: u64,
    /// One slot for each value below 1,000, then 900 slots per power of ten.
    slots: Vec<u64>,
}

impl DriverHistogram {
    /// Records a duration; a negative one counts as zero.
    pub(super) fn record_ns(&mut self, ns: i64) {
        let us = u64::try_from(ns).unwrap_or(0) / 1000;
        self.min_us = if self.count == 0 {
            us
        } else {
            self.min_us.min(us)
        };
        self.max_us = self.max_us.max(us);
        self.count += 1;
        self.sum_us = self.sum_us.saturating_add(us);
        let slot = slot(us);
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, 0);
        }
        self.slots[slot] += 1;
    }

    /// Returns the distribution of the recorded values.
    pub(super) fn distribution(&self) -> ReportedDistribution {
        let filled = self.slots.iter().enumerate();
        let filled = filled.filter(|(_, times)| **times > 0);
        ReportedDistribution {
            count: self.count,
            sum_us: self.sum_us,
            min_us: self.min_us,
            max_us: self.max_us,
            pairs: filled.map(|(slot, times)| (value(slot), *times)).collect(),
        }
    }
}

/// Returns the slot of a value, which determines its rounding.
fn slot(us: u64) -> usize {
    let (mut digits, mut power) = (us, 0);
    while digits >= 1000 {
        digits /= 10;
        power += 1;
    }
    let unit = 10_u64.pow(power);
    let rounded = digits + u64::from((us - digits * unit) * 2 >= unit && power > 0);
    // 999.5 rounds to 1000, the first value of the next power.
    let (rounded, power) = match rounded {
        1000 if power > 0 => (100, power + 1),
        rounded => (rounded, power),
    };
    // Invariant: at most 18 powers of 900.
    (rounded + u64::from(power) * SLOTS_PER_POWER) as usize
}

/// Returns the value of a slot.
fn value(slot: usize) -> u64 {
    let slot = slot as u64;
    if slot < 1000 {
        return slot;
    }
    let power = (slot - 100) / SLOTS_PER_POWER;
    let digits = slot - power * SLOTS_PER_POWER;
    // Invariant: only slots of recorded values are converted.
    digits.saturating_mul(10_u64.saturating_pow(u32::try_from(power).unwrap_or(u32::MAX)))
}

/// Number of values with three digits.
const SLOTS_PER_POWER: u64 = 900;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_are_rounded_to_three_digits() {
        for (us, expected) in [
            (0, 0),
            (999, 999),
            (1000, 1000),
            (1004, 1000),
            (1005, 1010),
            (9994, 9990),
            (9995, 10_000),
            (12_345, 12_300),
            (12_350, 12_400),
            (999_499, 999_000),
            (999_500, 1_000_000),
            (18_446_744_073_709, 18_400_000_000_000),
        ] {
            assert_eq!(value(slot(us)), expected, "{us}");
        }
    }

    #[test]
    fn recorded_values_are_in_the_distribution() {
        let mut histogram = DriverHistogram::default();
        assert_eq!(histogram.distribution(), ReportedDistribution::default());
        for ns in [5_000, -3, 12_345_678, 5_999] {
            histogram.record_ns(ns);
        }
        assert_eq!(
            histogram.distribution(),
            ReportedDistribution {
                count: 4,
                sum_us: 12_345 + 10,
                min_us: 0,
                max_us: 12_345,
                pairs: vec![(0, 1), (5, 2), (12_300, 1)],
            }
        );
    }

    proptest! {
        #[test]
        fn slots_are_ordered_and_close(first in 0..u64::MAX / 1000, second in 0..u64::MAX / 1000) {
            let (low, high) = (first.min(second), first.max(second));
            prop_assert!(slot(low) <= slot(high));
            prop_assert!(value(slot(low)).abs_diff(low) as f64 <= low as f64 * 0.005);
            prop_assert_eq!(slot(value(slot(high))), slot(high));
        }
    }
}
