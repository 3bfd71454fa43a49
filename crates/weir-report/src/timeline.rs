//! Results of a cell per second, from its interval log: percentiles, and counts per latency range.

use std::collections::BTreeMap;

use weir_stats::Histogram;

/// Number of latency ranges per factor of ten. The upper limit of a range is about 26 % above its
/// lower limit.
pub(crate) const BINS_PER_DECADE: f64 = 10.0;
/// Maximum number of open seconds. Several workers write one log, so lines of the same second may
/// be this many seconds apart.
const OPEN_MAX: usize = 6;

/// Results of all seconds with values, in order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Timeline {
    pub(crate) seconds: Vec<TimelineSecond>,
}

/// Results of one second, or of several after thinning. Percentiles of too few values are `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TimelineSecond {
    /// End of the second, in seconds since the start of the first line.
    pub(crate) t_s: u32,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) p999_us: Option<f64>,
    pub(crate) max_us: Option<f64>,
    /// Number of values by latency range, see [`bin`].
    pub(crate) bins: BTreeMap<u16, u64>,
}

/// Merges the lines of a log by second. A second is open until `OPEN_MAX` later ones have lines.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    first_s: Option<f64>,
    open: BTreeMap<u32, Histogram>,
    done: Vec<TimelineSecond>,
}

impl Builder {
    /// Adds one line; lines of the same second are merged before percentiles are computed.
    pub(crate) fn add(&mut self, start_s: f64, histogram: &Histogram) {
        let first_s = *self.first_s.get_or_insert(start_s);
        let second = (start_s - first_s).round().clamp(0.0, 1e9) as u32;
        self.open.entry(second).or_default().merge(histogram);
        while self.open.len() > OPEN_MAX {
            self.close_first();
        }
    }

    pub(crate) fn finish(mut self) -> Timeline {
        while !self.open.is_empty() {
            self.close_first();
        }
        Timeline { seconds: self.done }
    }

    fn close_first(&mut self) {
        let Some((second, histogram)) = self.open.pop_first() else {
            return;
        };
        // A line may arrive after its second was closed. It is dropped: time never decreases.
        if !histogram.is_empty() && self.done.last().is_none_or(|last| last.t_s <= second) {
            self.done.push(TimelineSecond::of(second + 1, &histogram));
        }
    }
}

impl TimelineSecond {
    fn of(t_s: u32, histogram: &Histogram) -> Self {
        let us = |value_ns: u64| (value_ns as f64 / 1e3).max(0.001);
        let percentile = |percentile| histogram.supported_percentile_ns(percentile).map(us);
        let mut bins = BTreeMap::new();
        for (value_ns, count) in histogram.buckets() {
            *bins.entry(bin(us(value_ns))).or_default() += count;
        }
        Self {
            t_s,
            p50_us: percentile(50.0),
            p99_us: percentile(99.0),
            p999_us: percentile(99.9),
            max_us: histogram.max_ns().map(us),
            bins,
        }
    }
}

/// Returns the index of a latency's range. Latencies up to one microsecond are in the first range.
pub(crate) fn bin(value_us: f64) -> u16 {
    (value_us.max(1.0).log10() * BINS_PER_DECADE).floor() as u16
}

/// Returns the lower limit of a range in microseconds.
pub(crate) fn bin_from_us(bin: u16) -> f64 {
    10_f64.powf(f64::from(bin) / BINS_PER_DECADE)
}

impl Timeline {
    /// Returns a copy with at most `seconds_max` entries. An entry for several seconds has their
    /// worst percentiles and the sums of their counts.
    pub(crate) fn thinned(&self, seconds_max: usize) -> Self {
        let group = self.seconds.len().div_ceil(seconds_max).max(1);
        let seconds = self
            .seconds
            .chunks(group)
            .map(TimelineSecond::joined)
            .collect();
        Self { seconds }
    }

    /// Returns the first and the last range that have values.
    pub(crate) fn bins(&self) -> Option<(u16, u16)> {
        let bins = || self.seconds.iter().flat_map(|second| second.bins.keys());
        Some((*bins().min()?, *bins().max()?))
    }
}

impl TimelineSecond {
    fn joined(seconds: &[Self]) -> Self {
        let worst =
            |pick: fn(&Self) -> Option<f64>| seconds.iter().filter_map(pick).reduce(f64::max);
        let mut bins: BTreeMap<u16, u64> = BTreeMap::new();
        for (bin, count) in seconds.iter().flat_map(|second| &second.bins) {
            *bins.entry(*bin).or_default() += count;
        }
        Self {
            t_s: seconds.last().map_or(0, |second| second.t_s),
            p50_us: worst(|second| second.p50_us),
            p99_us: worst(|second| second.p99_us),
            p999_us: worst(|second| second.p999_us),
            max_us: worst(|second| second.max_us),
            bins,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(value_us: u64, count: u64) -> Histogram {
        let mut histogram = Histogram::new();
        histogram.record_n(value_us * 1000, count);
        histogram
    }

    #[test]
    fn lines_of_one_second_are_merged() {
        let mut builder = Builder::default();
        for (start_s, value_us) in [(100.4, 500), (101.41, 700), (100.42, 900), (103.4, 20)] {
            builder.add(start_s, &histogram(value_us, 300));
        }
        let timeline = builder.finish();
        let seconds: Vec<_> = timeline.seconds.iter().map(|second| second.t_s).collect();
        assert_eq!(seconds, [1, 2, 4]);
        let first = &timeline.seconds[0];
        assert_eq!(first.bins, BTreeMap::from([(26, 300), (29, 300)]));
        assert!(first.p50_us.unwrap() < 510.0 && first.p99_us.unwrap() > 890.0);
        assert_eq!(first.p999_us, None, "600 values are too few");
        assert_eq!(timeline.bins(), Some((13, 29)));
    }

    #[test]
    fn ranges_are_a_tenth_of_a_decade() {
        assert_eq!(
            (bin(0.2), bin(1.0), bin(10.0), bin(12.7), bin(1e6)),
            (0, 0, 10, 11, 60)
        );
        assert!((bin_from_us(30) - 1000.0).abs() < 1e-9);
    }

    #[test]
    fn thinning_retains_worst_and_all_values() {
        let mut builder = Builder::default();
        for second in 0..10_u32 {
            builder.add(
                f64::from(second),
                &histogram(u64::from(second + 1) * 100, 300),
            );
        }
        let thin = builder.finish().thinned(4);
        let seconds: Vec<_> = thin.seconds.iter().map(|second| second.t_s).collect();
        assert_eq!(seconds, [3, 6, 9, 10]);
        assert!(thin.seconds[0].p50_us.unwrap() > 299.0);
        let values: u64 = thin
            .seconds
            .iter()
            .flat_map(|second| second.bins.values())
            .sum();
        assert_eq!(values, 3000);
    }
}
