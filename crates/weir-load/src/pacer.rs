//! Open-loop schedule as a pure function: record `i` is due at `i / rate` after the start.
//!
//! The schedule depends neither on a clock nor on the records sent. A stalled sender finds more
//! records due; the schedule does not shift.

use std::fmt;
use std::time::Duration;

use crate::share::WorkerShare;

/// Rate above which a sender wakes once per slot instead of once per record.
const SLOTS_ABOVE_MILLIS: u64 = 5_000 * 1000;
const SLOT_NS: u64 = 1_000_000;
const NS_PER_S: u128 = 1_000_000_000;

/// Records per second, stored in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rate(u64);

/// Error for a rate out of range.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("rate {0} per second is out of range: give 0.001 to 100,000,000")]
pub struct RateError(f64);

impl Rate {
    /// 100 per second, the published load of scenario 2.
    pub const HUNDRED: Self = Self(100_000);
    /// No limit: records are due when they are sent.
    pub const UNLIMITED: Self = Self(u64::MAX);

    /// Returns a rate of 0.001 to 100,000,000 per second, rounded to thousandths.
    pub fn per_second(rate: f64) -> Result<Self, RateError> {
        let millis = (rate * 1000.0).round();
        if !(1.0..=1e11).contains(&millis) {
            return Err(RateError(rate));
        }
        // In range by the check above.
        Ok(Self(millis as u64))
    }

    /// Returns the rate of `producers` that each pause this long between two records. The published
    /// generator defines it as producers * 1000 / pause in ms.
    pub fn of_producers(producers: u32, pause: Duration) -> Result<Self, RateError> {
        Self::per_second(f64::from(producers) / pause.as_secs_f64())
    }

    /// Returns the rate in thousandths of a record per second; 0 without a limit.
    pub fn millis(self) -> u64 {
        if self.is_unlimited() { 0 } else { self.0 }
    }

    /// Returns `true` if the rate has no limit.
    pub fn is_unlimited(self) -> bool {
        self == Self::UNLIMITED
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_unlimited() {
            true => f.write_str("unlimited"),
            false => write!(f, "{}", self.0 as f64 / 1000.0),
        }
    }
}

/// Due times of records, in nanoseconds after the start. Records are counted within the share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacer {
    rate: Rate,
    share: WorkerShare,
}

impl Pacer {
    /// Returns the schedule of one rate.
    pub fn new(rate: Rate) -> Self {
        let share = WorkerShare::WHOLE;
        Self { rate, share }
    }

    /// Returns a share of the schedule: its records are due as they are in the whole one.
    pub(crate) fn share(self, share: WorkerShare) -> Self {
        Self { share, ..self }
    }

    /// Returns the due time of record `index`.
    pub fn due_ns(&self, index: u64) -> u64 {
        let index = u128::from(index) * self.share.of as u128 + self.share.index as u128;
        let ns = index * NS_PER_S * 1000 / u128::from(self.rate.0);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Returns the number of records due before `elapsed_ns`: the index of the first one not yet
    /// due.
    pub fn due_before(&self, elapsed_ns: u64) -> u64 {
        // Smallest i with floor(i * 10^12 / rate) >= elapsed, that is i * 10^12 >= elapsed * rate.
        let count = (u128::from(elapsed_ns) * u128::from(self.rate.0)).div_ceil(NS_PER_S * 1000);
        self.share.count(u64::try_from(count).unwrap_or(u64::MAX))
    }

    /// Returns when to wake for record `index`: at its due time, or at high rates at the end of its
    /// slot.
    pub fn wake_ns(&self, index: u64) -> u64 {
        let due = self.due_ns(index);
        if self.rate.0 / self.share.of.max(1) as u64 <= SLOTS_ABOVE_MILLIS {
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
    fn due_and_wake_times_follow_the_rate() {
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
    fn rates_out_of_range_are_rejected() {
        let published = Rate::of_producers(10, Duration::from_millis(100)).expect("in range");
        assert_eq!(published.to_string(), "100");
        assert_eq!(published.millis(), 100_000);
        for bad in [0.0, -1.0, 0.0001, 1e9, f64::NAN, f64::INFINITY] {
            let error = Rate::per_second(bad).expect_err("out of range").to_string();
            assert!(error.contains("out of range"), "{error}");
        }
        assert!(Rate::of_producers(1, Duration::ZERO).is_err());
    }

    proptest! {
        #[test]
        fn record_count_matches_due_times(
            millis in 1..1_000_000_000_u64,
            elapsed in 0..100_000_000_000_000_u64,
        ) {
            let pacer = Pacer::new(Rate(millis));
            let count = pacer.due_before(elapsed);
            prop_assert!(pacer.due_ns(count) >= elapsed);
            prop_assert!(count == 0 || pacer.due_ns(count - 1) < elapsed);
        }

        #[test]
        fn shares_have_all_due_times(
            millis in 1..1_000_000_000_u64,
            elapsed in 0..1_000_000_000_u64,
            of in 1..5_usize,
        ) {
            let whole = Pacer::new(Rate(millis));
            let shares: Vec<_> =
                (0..of).map(|index| whole.share(WorkerShare { index, of })).collect();
            let count: u64 = shares.iter().map(|share| share.due_before(elapsed)).sum();
            prop_assert_eq!(count, whole.due_before(elapsed));
            for record in 0..20 {
                let share = shares[record as usize % of];
                prop_assert_eq!(share.due_ns(record / of as u64), whole.due_ns(record));
            }
        }

        #[test]
        fn wake_is_within_one_slot_after_due(
            millis in 1..1_000_000_000_u64,
            index in 0..1_000_000_u64,
        ) {
            let pacer = Pacer::new(Rate(millis));
            let late = pacer.wake_ns(index) - pacer.due_ns(index);
            prop_assert!(late < SLOT_NS);
        }
    }
}
