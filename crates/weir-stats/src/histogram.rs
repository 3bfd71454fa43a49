//! A latency histogram in nanoseconds based on HdrHistogram, and its V2 text form.

use std::fmt;

use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};

use crate::hdr_codec;
pub use crate::hdr_codec::HistogramError;

/// Highest recorded value, one hour. Longer ones are recorded as one hour and counted by
/// [`Histogram::clamped`].
pub const TOP_NS: u64 = 3_600_000_000_000;
/// Three significant digits: a value is accurate to 0.1 %.
pub(crate) const SIGNIFICANT_DIGITS: u8 = 3;

/// A histogram in nanoseconds with three significant digits up to one hour.
///
/// Percentiles of several histograms come from [`merge`](Self::merge), never from averages of
/// percentiles.
#[derive(Clone, PartialEq)]
pub struct Histogram {
    inner: hdrhistogram::Histogram<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self::new()
    }
}

impl Histogram {
    /// Creates an empty histogram of about 270 kB.
    pub fn new() -> Self {
        // Invariant: these constants satisfy the bounds rule (high >= 2 * low, digits <= 5).
        let inner = hdrhistogram::Histogram::new_with_bounds(1, TOP_NS, SIGNIFICANT_DIGITS)
            .expect("constant bounds are valid");
        Self { inner }
    }

    /// Records one value.
    pub fn record_ns(&mut self, value_ns: u64) {
        self.record_n(value_ns, 1);
    }

    /// Records one value `count` times.
    pub fn record_n(&mut self, value_ns: u64, count: u64) {
        self.inner.saturating_record_n(value_ns.min(TOP_NS), count);
    }

    /// Adds every value of `other`. The result is the same as recording all values in one
    /// histogram.
    pub fn merge(&mut self, other: &Self) {
        // Invariant: both have the same bounds, so no value of `other` can be out of range.
        self.inner
            .add(&other.inner)
            .expect("histograms share their bounds");
    }

    /// Removes all values and retains the memory.
    pub fn clear(&mut self) {
        self.inner.reset();
    }

    /// Returns the number of values.
    pub fn count(&self) -> u64 {
        self.inner.len()
    }

    /// Returns `true` if nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.inner.is_empty()
    }

    /// Returns the number of values at or above one hour (to the resolution there), all recorded as
    /// one hour.
    pub fn clamped(&self) -> u64 {
        self.inner.count_at(TOP_NS)
    }

    /// Returns the mean in nanoseconds; `None` if empty.
    pub fn mean_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.inner.mean())
    }

    /// Returns the population standard deviation in nanoseconds; `None` if empty.
    pub fn stddev_ns(&self) -> Option<f64> {
        (!self.is_empty()).then(|| self.inner.stdev())
    }

    /// Returns the smallest value, rounded down to the histogram's resolution; `None` if empty.
    pub fn min_ns(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.inner.min())
    }

    /// Returns the largest value, rounded up to the histogram's resolution; `None` if empty.
    pub fn max_ns(&self) -> Option<u64> {
        (!self.is_empty()).then(|| self.inner.max())
    }

    /// Returns the value at `percentile` (0 to 100) for any number of samples; `None` if empty.
    pub fn percentile_ns(&self, percentile: f64) -> Option<u64> {
        (!self.is_empty()).then(|| self.inner.value_at_percentile(percentile.clamp(0.0, 100.0)))
    }

    /// Returns [`percentile_ns`](Self::percentile_ns), but `None` with fewer than
    /// [`samples_needed`] values.
    pub fn supported_percentile_ns(&self, percentile: f64) -> Option<u64> {
        if self.count() < samples_needed(percentile) {
            return None;
        }
        self.percentile_ns(percentile)
    }

    /// Returns the buckets with values, ascending: highest value of the bucket in nanoseconds, and
    /// its count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.inner
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
    }

    /// Returns the compressed V2 encoding in base64, as in interval logs of HdrHistogram tools.
    pub fn to_base64(&self) -> String {
        let mut bytes = Vec::new();
        // Invariant: a Vec accepts every write, and the bounds fit the format's limits.
        V2DeflateSerializer::new()
            .serialize(&self.inner, &mut bytes)
            .expect("serializing into memory cannot fail");
        hdr_codec::to_base64(&bytes)
    }

    /// Reads a V2 encoding, compressed or not, with any number of significant digits.
    ///
    /// # Errors
    /// The text is not base64, not V2, damaged, or larger than any histogram.
    pub fn from_base64(text: &str) -> Result<Self, HistogramError> {
        let inner = hdr_codec::from_base64(text)?;
        if (inner.low(), inner.high(), inner.sigfig()) == (1, TOP_NS, SIGNIFICANT_DIGITS) {
            return Ok(Self { inner });
        }
        let mut histogram = Self::new();
        for step in inner.iter_recorded() {
            let lowest_ns = inner.lowest_equivalent(step.value_iterated_to());
            histogram.record_n(lowest_ns, step.count_at_value());
        }
        Ok(histogram)
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Histogram")
            .field("count", &self.count())
            .field("min_ns", &self.min_ns())
            .field("p50_ns", &self.percentile_ns(50.0))
            .field("max_ns", &self.max_ns())
            .finish()
    }
}

/// Counter of negative values, which are never recorded as zero. They indicate clocks that
/// disagree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NegativeCount {
    /// Number of negative values.
    pub count: u64,
    /// Lowest value in nanoseconds; 0 if there was none.
    pub lowest_ns: i64,
}

impl NegativeCount {
    /// Records a signed difference: counts it here if it is negative, otherwise records it in
    /// `histogram`.
    pub fn record(&mut self, histogram: &mut Histogram, value_ns: i64) {
        match u64::try_from(value_ns) {
            Ok(value_ns) => histogram.record_ns(value_ns),
            Err(_) => {
                self.count += 1;
                self.lowest_ns = self.lowest_ns.min(value_ns);
            }
        }
    }

    /// Adds the values of `other`.
    pub fn merge(&mut self, other: Self) {
        self.count += other.count;
        self.lowest_ns = self.lowest_ns.min(other.lowest_ns);
    }
}

/// Returns the minimum number of values with which the maximum bounds `percentile` from above with
/// 95 % confidence.
///
/// 299 for p99, 2,995 for p99.9, 29,956 for p99.99. With fewer values the percentile is not
/// reported.
pub fn samples_needed(percentile: f64) -> u64 {
    let quantile = percentile / 100.0;
    if quantile <= 0.0 {
        return 1;
    }
    if quantile >= 1.0 {
        return u64::MAX;
    }
    (0.05_f64.ln() / quantile.ln()).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn summary_matches_known_values() {
        let mut histogram = Histogram::new();
        for value_us in 1..=1000_u64 {
            histogram.record_ns(value_us * 1000);
        }
        assert_eq!(histogram.count(), 1000);
        let p50_ns = histogram.percentile_ns(50.0).unwrap();
        assert!((499_500..=500_500).contains(&p50_ns), "{p50_ns}");
        assert_eq!(histogram.min_ns(), Some(1000));
        assert!(histogram.supported_percentile_ns(99.0).is_some());
        assert_eq!(histogram.supported_percentile_ns(99.9), None);
    }

    #[test]
    fn empty_histogram_has_no_values() {
        let histogram = Histogram::new();
        assert_eq!(histogram.mean_ns(), None);
        assert_eq!(histogram.percentile_ns(99.0), None);
        assert_eq!(histogram.max_ns(), None);
        assert_eq!(
            Histogram::from_base64(&histogram.to_base64()).unwrap(),
            histogram
        );
    }

    #[test]
    fn values_above_an_hour_are_clamped_and_counted() {
        let mut histogram = Histogram::new();
        histogram.record_ns(TOP_NS - TOP_NS / 100);
        assert_eq!(histogram.clamped(), 0);
        histogram.record_n(u64::MAX, 3);
        assert_eq!(histogram.clamped(), 3);
        assert_eq!(
            Histogram::from_base64(&histogram.to_base64())
                .unwrap()
                .clamped(),
            3
        );
    }

    #[test]
    fn negative_values_are_not_recorded_as_zero() {
        let mut histogram = Histogram::new();
        let mut negative = NegativeCount::default();
        for value_ns in [-5, 0, 7, -9] {
            negative.record(&mut histogram, value_ns);
        }
        assert_eq!(
            negative,
            NegativeCount {
                count: 2,
                lowest_ns: -9
            }
        );
        assert_eq!(histogram.count(), 2);
    }

    #[test]
    fn samples_needed_matches_the_published_limits() {
        assert_eq!(samples_needed(99.0), 299);
        assert_eq!(samples_needed(99.9), 2995);
        assert_eq!(samples_needed(99.99), 29956);
        assert_eq!(samples_needed(0.0), 1);
        assert_eq!(samples_needed(100.0), u64::MAX);
    }

    fn of(values_ns: &[u64]) -> Histogram {
        let mut histogram = Histogram::new();
        values_ns
            .iter()
            .for_each(|value_ns| histogram.record_ns(*value_ns));
        histogram
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn merging_equals_recording_all(
            left in proptest::collection::vec(any::<u64>(), 0..50),
            right in proptest::collection::vec(0..10_000_000_000_u64, 0..50),
        ) {
            let mut merged = of(&left);
            merged.merge(&of(&right));
            let all: Vec<u64> = left.iter().chain(&right).copied().collect();
            prop_assert_eq!(merged, of(&all));
        }

        #[test]
        fn base64_is_identity(values in proptest::collection::vec(0..TOP_NS * 2, 0..80)) {
            let histogram = of(&values);
            let read = Histogram::from_base64(&histogram.to_base64()).unwrap();
            prop_assert_eq!(&read, &histogram);
            prop_assert_eq!(read.max_ns(), histogram.max_ns());
            prop_assert_eq!(read.min_ns(), histogram.min_ns());
        }
    }
}
