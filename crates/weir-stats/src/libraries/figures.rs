//! Statistics of a few repeated values, and the ratio of two sets of values.

use crate::interval::sorted_finite;

/// Statistics of one quantity over the repetitions of a cell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleStatistics {
    /// Number of values.
    pub count: usize,
    /// Maximum.
    pub max: f64,
    /// Minimum.
    pub min: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation of the sample (n - 1); needs two values.
    pub sd: Option<f64>,
    /// Mean without one minimum and one maximum; needs three values.
    pub filtered_mean: Option<f64>,
    /// Standard deviation without one minimum and one maximum; needs four values.
    pub filtered_sd: Option<f64>,
    /// Median.
    pub median: f64,
    /// Median absolute deviation.
    pub mad: f64,
    /// First quartile.
    pub quartile_low: f64,
    /// Third quartile.
    pub quartile_high: f64,
    /// 95th percentile.
    pub p95: f64,
}

impl SampleStatistics {
    /// Returns the statistics, or `None` without finite values.
    pub fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted_finite(values);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let median = quantile(&sorted, 0.5);
        let distances: Vec<f64> = sorted.iter().map(|value| (value - median).abs()).collect();
        let inner = sorted.get(1..sorted.len() - 1).unwrap_or_default();
        let rank = (sorted.len() as f64 * 0.95).ceil() as usize;
        Some(Self {
            count: sorted.len(),
            max,
            min,
            mean: mean(&sorted)?,
            sd: deviation(&sorted),
            filtered_mean: mean(inner),
            filtered_sd: deviation(inner),
            median,
            mad: quantile(&sorted_finite(&distances), 0.5),
            quartile_low: quantile(&sorted, 0.25),
            quartile_high: quantile(&sorted, 0.75),
            p95: sorted[rank.clamp(1, sorted.len()) - 1],
        })
    }

    /// Returns the coefficient of variation: standard deviation in percent of the mean.
    pub fn cv_percent(&self) -> Option<f64> {
        percent(self.sd?, self.mean)
    }

    /// Returns the coefficient of variation without one minimum and one maximum.
    pub fn filtered_cv_percent(&self) -> Option<f64> {
        percent(self.filtered_sd?, self.filtered_mean?)
    }
}

/// Ratios of the statistics of the first library to those of another, in percent; `None` if one is
/// missing or the other is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct RatioPercent {
    /// Ratio of maxima.
    pub max: Option<f64>,
    /// Ratio of minima.
    pub min: Option<f64>,
    /// Ratio of means.
    pub mean: Option<f64>,
    /// Ratio of standard deviations.
    pub sd: Option<f64>,
    /// Ratio of coefficients of variation.
    pub cv: Option<f64>,
}

impl RatioPercent {
    /// Returns the ratios. Below 100 the first value is lower.
    pub fn of(first: &SampleStatistics, other: &SampleStatistics) -> Self {
        let both = |pick: fn(&SampleStatistics) -> Option<f64>| percent(pick(first)?, pick(other)?);
        Self {
            max: both(|it| Some(it.max)),
            min: both(|it| Some(it.min)),
            mean: both(|it| Some(it.mean)),
            sd: both(|it| it.sd),
            cv: both(SampleStatistics::cv_percent),
        }
    }
}

fn percent(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole * 100.0)
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}

/// Interpolates linearly between the two nearest values. `sorted` is not empty.
fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    sorted[low] + (sorted[high] - sorted[low]) * place.fract()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn statistics_match_known_values() {
        let figures = SampleStatistics::of(&[4.0, 1.0, 2.0, 3.0, 10.0]).unwrap();
        assert_eq!((figures.count, figures.min, figures.max), (5, 1.0, 10.0));
        assert_eq!((figures.mean, figures.median, figures.mad), (4.0, 3.0, 1.0));
        // Squares 9 + 4 + 1 + 0 + 36, divided by 4.
        assert!((figures.sd.unwrap() - 12.5_f64.sqrt()).abs() < 1e-12);
        assert!((figures.cv_percent().unwrap() - 12.5_f64.sqrt() * 25.0).abs() < 1e-9);
        assert_eq!(figures.filtered_mean, Some(3.0));
        assert_eq!(figures.filtered_sd, Some(1.0));
        assert!((figures.filtered_cv_percent().unwrap() - 100.0 / 3.0).abs() < 1e-9);
        assert_eq!((figures.quartile_low, figures.quartile_high), (2.0, 4.0));
        assert_eq!(figures.p95, 10.0);
        let twenty: Vec<f64> = (1..=20).map(f64::from).collect();
        assert_eq!(SampleStatistics::of(&twenty).unwrap().p95, 19.0);
    }

    #[test]
    fn few_values_have_few_statistics() {
        assert_eq!(SampleStatistics::of(&[f64::NAN]), None);
        let one = SampleStatistics::of(&[7.0]).unwrap();
        assert_eq!((one.sd, one.filtered_mean, one.mad), (None, None, 0.0));
        let three = SampleStatistics::of(&[1.0, 2.0, 9.0]).unwrap();
        assert_eq!((three.filtered_mean, three.filtered_sd), (Some(2.0), None));
    }

    #[test]
    fn ratios_are_in_percent_of_the_other() {
        let first = SampleStatistics::of(&[1.0, 2.0, 3.0]).unwrap();
        let other = SampleStatistics::of(&[2.0, 4.0, 6.0]).unwrap();
        let ratio = RatioPercent::of(&first, &other);
        assert_eq!((ratio.max, ratio.min), (Some(50.0), Some(50.0)));
        assert_eq!((ratio.mean, ratio.sd), (Some(50.0), Some(50.0)));
        assert_eq!(ratio.cv, Some(100.0));
        let zero = SampleStatistics::of(&[0.0, 0.0]).unwrap();
        let over_nothing = RatioPercent::of(&first, &zero);
        assert_eq!((over_nothing.mean, over_nothing.sd), (None, None));
    }

    proptest! {
        #[test]
        fn statistics_are_ordered(values in proptest::collection::vec(0.0..1e9_f64, 1..40)) {
            let it = SampleStatistics::of(&values).unwrap();
            prop_assert!(it.min <= it.quartile_low && it.quartile_low <= it.median);
            prop_assert!(it.median <= it.quartile_high && it.quartile_high <= it.max);
            prop_assert!(it.min <= it.p95 && it.p95 <= it.max);
            prop_assert!(it.mean >= it.min * 0.999_999 && it.mean <= it.max * 1.000_001);
            prop_assert!(it.mad <= it.max - it.min);
            if let Some(inner) = it.filtered_mean {
                prop_assert!(inner >= it.min * 0.999_999 && inner <= it.max * 1.000_001);
            }
        }
    }
}
