//! Histogram in the resolution of the protocol: whole microseconds, three digits.

use weir_stats::run::Distribution;

/// Growing histogram. Recording rarely allocates and needs no search.
#[derive(Debug, Default)]
pub(super) struct DriverHistogram {
    /// Distribution, without its pairs.
    all: Distribution,
    /// One slot for each value below 1,000, then 900 slots per power of ten.
    slots: Vec<u64>,
}

impl DriverHistogram {
    /// Records a duration; a negative one counts as zero.
    pub(super) fn record_ns(&mut self, ns: i64) {
        let us = u64::try_from(ns).unwrap_or(0) / 1000;
        let all = &mut self.all;
        all.min_us = if all.count == 0 {
            us
        } else {
            all.min_us.min(us)
        };
        all.max_us = all.max_us.max(us);
        all.count += 1;
        all.sum_us = all.sum_us.saturating_add(us);
        let slot = slot(us);
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, 0);
        }
        self.slots[slot] += 1;
    }

    pub(super) fn distribution(self) -> Distribution {
        let slots = self.slots.into_iter().enumerate();
        let filled = slots.filter(|(_, times)| *times > 0);
        Distribution {
            pairs: filled.map(|(slot, times)| (value(slot), times)).collect(),
            ..self.all
        }
    }
}

/// Returns the slot of a value, which determines its rounding.
fn slot(us: u64) -> usize {
    let power = us.checked_ilog10().unwrap_or(0).saturating_sub(2);
    let unit = 10_u64.pow(power);
    // 999.5 rounds to 1000, whose slot is that of 100 in the next power.
    let digits = us / unit + u64::from(us % unit * 2 >= unit && power > 0);
    // Invariant: at most 18 powers of 900.
    (digits + u64::from(power) * SLOTS_PER_POWER) as usize
}

fn value(slot: usize) -> u64 {
    let slot = slot as u64;
    let power = slot.saturating_sub(100) / SLOTS_PER_POWER;
    let digits = slot - power * SLOTS_PER_POWER;
    // Invariant: only slots of recorded values are converted.
    digits.saturating_mul(10_u64.saturating_pow(u32::try_from(power).unwrap_or(u32::MAX)))
}

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
        let empty = DriverHistogram::default();
        assert_eq!(empty.distribution(), Distribution::default());
        for ns in [5_000, -3, 12_345_678, 5_999] {
            histogram.record_ns(ns);
        }
        assert_eq!(
            histogram.distribution(),
            Distribution {
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
