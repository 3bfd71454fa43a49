//! The open-loop schedule as a pure function: record `i` is due at `i / rate` after the start.
//!
//! Nothing here looks at a clock or at what was sent: a stalled sender finds more records due, and
//! the schedule neither slips nor skips.

use std::fmt;
use std::time::Duration;

/// Above this rate a sender wakes in slots instead of once per record.
const SLOTS_ABOVE_MILLIS: u64 = 5_000 * 1000;
/// Length of a slot.
const SLOT_NS: u64 = 1_000_000;
const NS_PER_S: u128 = 1_000_000_000;

/// Records per second, kept in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

/// A rate that is no rate.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("rate {0} per second is out of range: give 0.001 to 100,000,000")]
pub struct RateError(f64);

impl Rate {
    /// 100 per second, the published load of scenario 2.
    pub const HUNDRED: Self = Self(100_000);

    /// A rate from 0.001 to 100,000,000 per second, rounded to thousandths.
    ///
    /// # Errors
    /// Outside that range.
    pub fn per_second(rate: f64) -> Result<Self, RateError> {
        let millis = (rate * 1000.0).round();
        if !(1.0..=1e11).contains(&millis) {
            return Err(RateError(rate));
        }
        // In range by the check above.
        Ok(Self(millis as u64))
    }

    /// The rate of `producers` that each pause this long between two records, as the published
    /// generator states it: producers * 1000 / pause in ms.
    ///
    /// # Errors
    /// When the result is out of range, such as without a pause.
    pub fn of_producers(producers: u32, pause: Duration) -> Result<Self, RateError> {
        Self::per_second(f64::from(producers) / pause.as_secs_f64())
    }

    /// In thousandths of a record per second.
    pub fn millis(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 as f64 / 1000.0)
    }
}

/// When each record is due, in nanoseconds after the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacer {
    rate: Rate,
}

impl Pacer {
    /// The schedule of one rate.
    pub fn new(rate: Rate) -> Self {
        Self { rate }
    }

    /// When record `index` is due.
    pub fn due_ns(&self, index: u64) -> u64 {
        let ns = u128::from(index) * NS_PER_S * 1000 / u128::from(self.rate.0);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Number of records due before `elapsed_ns`; the index of the first one that is not.
    pub fn due_before(&self, elapsed_ns: u64) -> u64 {
        // Least i with floor(i * 10^12 / rate) >= elapsed, that is i * 10^12 >= elapsed * rate.
        let count = (u128::from(elapsed_ns) * u128::from(self.rate.0)).div_ceil(NS_PER_S * 1000);
        u64::try_from(count).unwrap_or(u64::MAX)
    }

    /// When to wake for record `index`: at its due time, or at high rates at the end of its slot.
    pub fn wake_ns(&self, index: u64) -> u64 {
        let due = self.due_ns(index);
        if self.rate.0 <= SLOTS_ABOVE_MILLIS {
            return due;
        }
        due.div_ceil(SLOT_NS).saturating_mul(SLOT_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pacer(per_second: f64) -> Pacer {
        Pacer::new(Rate::per_second(per_second).expect("in range"))
    }

    #[test]
    fn schedule() {
        const S: u64 = 1_000_000_000;
        // rate, index, due, wake
        let rows = [
            (1.0, 0, 0, 0),
            (1.0, 7, 7 * S, 7 * S),
            (100.0, 1, 10_000_000, 10_000_000),
            (3.0, 1, 333_333_333, 333_333_333),
            (3.0, 3, S, S),
            (0.5, 1, 2 * S, 2 * S),
            (5_000.0, 1, 200_000, 200_000),
            (5_001.0, 1, 199_960, 1_000_000),
            (100_000.0, 0, 0, 0),
            (100_000.0, 100, 1_000_000, 1_000_000),
            (100_000.0, 101, 1_010_000, 2_000_000),
            (100_000.0, 8_640_000_000, 86_400 * S, 86_400 * S),
            (0.001, u64::MAX, u64::MAX, u64::MAX),
        ];
        for (rate, index, due, wake) in rows {
            let pacer = pacer(rate);
            assert_eq!(pacer.due_ns(index), due, "{rate}/s, record {index}");
            assert_eq!(pacer.wake_ns(index), wake, "{rate}/s, record {index}");
        }
    }

    #[test]
    fn rates() {
        let seed = Rate::of_producers(10, Duration::from_millis(100)).expect("in range");
        assert_eq!(seed.to_string(), "100");
        assert_eq!(seed.millis(), 100_000);
        for bad in [0.0, -1.0, 0.0001, 1e9, f64::NAN, f64::INFINITY] {
            let error = Rate::per_second(bad).expect_err("out of range").to_string();
            assert!(error.contains("out of range"), "{error}");
        }
        assert!(Rate::of_producers(1, Duration::ZERO).is_err());
    }

    proptest! {
        #[test]
        fn counting_agrees_with_the_due_times(millis in 1..1_000_000_000_u64, elapsed in 0..100_000_000_000_000_u64) {
            let pacer = Pacer::new(Rate(millis));
            let count = pacer.due_before(elapsed);
            prop_assert!(pacer.due_ns(count) >= elapsed);
            prop_assert!(count == 0 || pacer.due_ns(count - 1) < elapsed);
        }

        #[test]
        fn a_wake_is_never_early_and_at_most_a_slot_late(millis in 1..1_000_000_000_u64, index in 0..1_000_000_u64) {
            let pacer = Pacer::new(Rate(millis));
            let late = pacer.wake_ns(index) - pacer.due_ns(index);
            prop_assert!(late < SLOT_NS);
        }
    }
}
