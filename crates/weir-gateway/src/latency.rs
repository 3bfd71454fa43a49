//! Age of records when their updates are sent: one small histogram per shard, written by it alone.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_ingest::add;

/// Below this number, each millisecond has its own bucket.
const LINEAR: u64 = 16;
/// Buckets per power of two.
const STEPS: usize = 8;
/// First power of two that is divided into steps.
const FIRST_POWER: usize = LINEAR.ilog2() as usize;
/// Number of powers: up to 131 s, the last bucket includes everything above.
const POWERS: usize = 13;
pub(crate) const BUCKETS: usize = LINEAR as usize + POWERS * STEPS;

/// Delivery counts by age in milliseconds, written by one thread.
#[derive(Debug)]
pub(crate) struct DeliveryAges {
    buckets: [AtomicU64; BUCKETS],
    sum_ms: AtomicU64,
}

/// Delivery counts by age at one moment, or in a period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgeHistogram {
    pub(crate) buckets: [u64; BUCKETS],
    pub(crate) sum_ms: u64,
}

impl DeliveryAges {
    pub(crate) fn new() -> Self {
        Self {
            buckets: [const { AtomicU64::new(0) }; BUCKETS],
            sum_ms: AtomicU64::new(0),
        }
    }

    /// Counts `deliveries` of this age; must be called by the writing thread only.
    pub(crate) fn record(&self, age_ms: u64, deliveries: u64) {
        add(&self.buckets[bucket(age_ms)], deliveries);
        add(&self.sum_ms, age_ms.saturating_mul(deliveries));
    }

    pub(crate) fn add_to(&self, counts: &mut AgeHistogram) {
        for (sum, bucket) in counts.buckets.iter_mut().zip(&self.buckets) {
            *sum += bucket.load(Ordering::Relaxed);
        }
        counts.sum_ms += self.sum_ms.load(Ordering::Relaxed);
    }
}

impl AgeHistogram {
    pub(crate) fn new() -> Self {
        Self {
            buckets: [0; BUCKETS],
            sum_ms: 0,
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.buckets.iter().sum()
    }

    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut between = self.clone();
        for (count, before) in between.buckets.iter_mut().zip(&earlier.buckets) {
            *count = count.saturating_sub(*before);
        }
        between.sum_ms = self.sum_ms.saturating_sub(earlier.sum_ms);
        between
    }

    /// Returns the age in milliseconds that the given share of deliveries did not exceed; `None`
    /// without deliveries.
    pub(crate) fn quantile(&self, share: f64) -> Option<u64> {
        let total = self.total();
        let rank = ((total as f64 * share).ceil() as u64).clamp(1, total.max(1));
        let mut sum = 0;
        let found = self.buckets.iter().position(|count| {
            sum += count;
            sum >= rank
        });
        found.filter(|_| total > 0).map(highest_ms)
    }

    /// Returns delivery counts up to each power of two of milliseconds, without overlap; the last
    /// count includes everything above.
    pub(crate) fn by_power(&self) -> Vec<(u64, u64)> {
        let powers = FIRST_POWER + POWERS;
        let mut counts: Vec<_> = (0..=powers).map(|power| (1 << power, 0)).collect();
        for (index, count) in self.buckets.iter().enumerate() {
            let power = highest_ms(index).next_power_of_two().ilog2() as usize;
            counts[power.min(powers)].1 += count;
        }
        counts
    }
}

fn bucket(ms: u64) -> usize {
    if ms < LINEAR {
        return ms as usize;
    }
    let power = ms.ilog2() as usize;
    let step = (ms >> (power - STEPS.ilog2() as usize)) as usize % STEPS;
    (LINEAR as usize + (power - FIRST_POWER) * STEPS + step).min(BUCKETS - 1)
}

fn highest_ms(index: usize) -> u64 {
    let Some(above) = index.checked_sub(LINEAR as usize) else {
        return index as u64;
    };
    let power = FIRST_POWER + above / STEPS;
    let width = 1 << (power - STEPS.ilog2() as usize);
    (1 << power) + (above % STEPS + 1) as u64 * width - 1
}

/// Deliveries of one flush round that are not written yet.
#[derive(Debug, Default)]
pub(crate) struct PendingAges {
    /// Record time in milliseconds since 1970 and number of deliveries.
    updates: Vec<(i64, u64)>,
}

/// Maximum number of pending record times; when it is reached they are counted immediately.
const WAITING_MAX: usize = 1_024;

impl PendingAges {
    /// Adds the deliveries of one update; records without a time are ignored. Returns `true` if the
    /// pending times must be counted now.
    pub(crate) fn note(&mut self, record_ms: i64, deliveries: u64) -> bool {
        if record_ms < 0 || deliveries == 0 {
            return false;
        }
        match self.updates.last_mut() {
            Some((last_ms, count)) if *last_ms == record_ms => *count += deliveries,
            _ => self.updates.push((record_ms, deliveries)),
        }
        self.updates.len() >= WAITING_MAX
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }

    /// Counts all pending deliveries as sent at `now_ms`. Records from the future, caused by a
    /// clock that is ahead, have age 0.
    pub(crate) fn count(&mut self, now_ms: i64, latency: &DeliveryAges) {
        for (record_ms, deliveries) in self.updates.drain(..) {
            let age_ms = u64::try_from(now_ms.saturating_sub(record_ms)).unwrap_or(0);
            latency.record(age_ms, deliveries);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous() {
        let mut last = 0;
        for ms in 0..300_000 {
            let index = bucket(ms);
            assert!(index == last || index == last + 1, "{ms}");
            assert!(ms <= highest_ms(index) || index == BUCKETS - 1, "{ms}");
            let width = highest_ms(index).saturating_sub(ms) as f64;
            assert!(index == BUCKETS - 1 || width <= ms as f64 / 8.0, "{ms}");
            last = index;
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_weight_by_deliveries() {
        let latency = DeliveryAges::new();
        latency.record(3, 98);
        latency.record(40, 1);
        let mut first = AgeHistogram::new();
        latency.add_to(&mut first);
        latency.record(1_000, 1);
        let mut all = AgeHistogram::new();
        latency.add_to(&mut all);
        assert_eq!((all.quantile(0.5), all.quantile(0.99)), (Some(3), Some(43)));
        assert_eq!(all.quantile(1.0), Some(1_023));
        let last = all.since(&first);
        assert_eq!(
            (last.total(), last.quantile(0.5), last.sum_ms),
            (1, Some(1_023), 1_000)
        );
        assert_eq!(AgeHistogram::new().quantile(0.5), None);
    }

    #[test]
    fn powers_count_each_delivery_once() {
        let latency = DeliveryAges::new();
        for ms in [0, 1, 2, 3, 4, 5, 16, 17, 1_024, 1_025, 10_000_000] {
            latency.record(ms, 1);
        }
        let mut counts = AgeHistogram::new();
        latency.add_to(&mut counts);
        let by_power = counts.by_power();
        assert_eq!(by_power.iter().map(|(_, count)| count).sum::<u64>(), 11);
        let up_to = |limit| {
            by_power
                .iter()
                .filter(|(ms, _)| *ms <= limit)
                .map(|(_, count)| count)
                .sum::<u64>()
        };
        assert_eq!([1, 2, 4, 8].map(up_to), [2, 3, 5, 6]);
        assert_eq!(by_power.last(), Some(&(131_072, 1)));
    }

    #[test]
    fn age_is_from_record_to_write() {
        let (mut sent, latency) = (PendingAges::default(), DeliveryAges::new());
        assert!(!sent.note(1_000, 5) && !sent.note(1_000, 5) && !sent.note(2_000, 1));
        assert!(!sent.note(-1, 7) && !sent.note(3_000, 0));
        sent.count(1_500, &latency);
        assert!(sent.is_empty());
        let mut counts = AgeHistogram::new();
        latency.add_to(&mut counts);
        assert_eq!(
            (counts.total(), counts.sum_ms, counts.buckets[0]),
            (11, 5_000, 1)
        );
        assert!(
            (0..2_000).any(|ms| sent.note(ms, 1)),
            "pending times are bounded"
        );
    }
}
