//! Medians, means and ratios of repeated measurements, most with a 95 % confidence interval.
//!
//! The unit of replication is the run or the window; latencies inside one run belong in a
//! [`Histogram`](crate::Histogram). All results are deterministic.

use std::collections::BTreeMap;

use statrs::distribution::{Binomial, DiscreteCDF};
use statrs::statistics::Statistics;

use crate::compare::LogRatio;
use crate::student_t;

/// A value with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    /// Value.
    pub value: f64,
    /// Bounds of the interval; `None` with too few values.
    pub bounds: Option<(f64, f64)>,
    /// Number of values used.
    pub count: usize,
}

/// Minimum confidence of an order-statistic interval.
const CONFIDENCE: f64 = 0.95;

/// Returns the median with an interval from order statistics, which makes no assumption about the
/// distribution.
///
/// At least six values are needed for an interval. Returns `None` without finite values.
pub fn median(values: &[f64]) -> Option<Estimate> {
    let sorted = sorted_finite(values);
    let count = sorted.len();
    let value = middle(&sorted)?;
    let bounds = median_ranks(count).map(|(low, high)| (sorted[low], sorted[high]));
    Some(Estimate {
        value,
        bounds,
        count,
    })
}

/// Returns the mean with Student's t interval, which needs at least two values. Returns `None`
/// without finite values.
pub fn mean(values: &[f64]) -> Option<Estimate> {
    let finite = sorted_finite(values);
    let count = finite.len();
    if count == 0 {
        return None;
    }
    let value = finite.iter().sum::<f64>() / count as f64;
    let bounds = (count > 1).then(|| {
        let error = (finite.iter().variance() / count as f64).sqrt();
        let half = student_t::quantile(0.5 + CONFIDENCE / 2.0, (count - 1) as f64) * error;
        (value - half, value + half)
    });
    Some(Estimate {
        value,
        bounds,
        count,
    })
}

/// Returns the value that represents all repetitions of a metric: their geometric mean, or their
/// arithmetic mean if one is zero or negative. Returns `None` without finite values.
///
/// Every table, verdict, threshold, chart and comparison uses it, so that printed ratios are ratios
/// of printed values. The order of the values does not matter.
pub fn repetition_mean(values: &[f64]) -> Option<f64> {
    let finite = sorted_finite(values);
    let count = finite.len() as f64;
    match finite.first() {
        None => None,
        // Avoids rounding where all repetitions agree.
        Some(first) if finite.last() == Some(first) => Some(*first),
        Some(lowest) if *lowest > 0.0 => {
            let logs: f64 = finite.iter().map(|value| value.ln()).sum();
            Some((logs / count).exp())
        }
        Some(_) => Some(finite.iter().sum::<f64>() / count),
    }
}

/// Returns the ratio of the [`repetition_mean`]s of two sides. Each value comes with the number of
/// its repetition.
///
/// The interval is that of [`ratio_of_pairs`] if both sides have the same repetitions, each once,
/// and Welch's interval otherwise. There is none with fewer than two values on a side, or with
/// values that are not positive.
pub fn repetition_ratio(own: &[(u64, f64)], base: &[(u64, f64)]) -> Option<Estimate> {
    let values =
        |side: &[(u64, f64)]| -> Vec<f64> { side.iter().map(|(_, value)| *value).collect() };
    let (own_values, base_values) = (values(own), values(base));
    let divisor = repetition_mean(&base_values).filter(|base| *base > 0.0)?;
    let value = repetition_mean(&own_values)? / divisor;
    let paired = pairs(own, base)
        .and_then(|pairs| ratio_of_pairs(&pairs))
        .filter(|estimate| estimate.count == own.len());
    let bounds = match paired {
        Some(paired) => paired.bounds,
        None => LogRatio::of(&base_values, &own_values)
            .map(|ratio| ratio.interval())
            .map(|(low, high)| (low.exp(), high.exp())),
    };
    Some(Estimate {
        value,
        bounds,
        count: own.len().min(base.len()),
    })
}

/// Returns the values of both sides by repetition, or `None` if a repetition is missing on one side
/// or occurs twice: pairs would then exclude values that the ratio includes.
fn pairs(own: &[(u64, f64)], base: &[(u64, f64)]) -> Option<Vec<(f64, f64)>> {
    let by_repetition =
        |side: &[(u64, f64)]| -> BTreeMap<u64, f64> { side.iter().copied().collect() };
    let (owns, bases) = (by_repetition(own), by_repetition(base));
    let is_once = owns.len() == own.len() && bases.len() == base.len();
    let is_same = is_once && owns.keys().eq(bases.keys());
    is_same.then(|| owns.into_values().zip(bases.into_values()).collect())
}

/// Returns the geometric mean of `a / b` over pairs measured in the same repetition, with a t
/// interval on the logarithms.
///
/// Excludes pairs in which a value is not a positive number. Returns `None` without pairs.
pub fn ratio_of_pairs(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let usable = |x: f64| x.is_finite() && x > 0.0;
    let logs: Vec<f64> = pairs
        .iter()
        .filter(|(a, b)| usable(*a) && usable(*b))
        .map(|(a, b)| (a / b).ln())
        .collect();
    let estimate = mean(&logs)?;
    Some(Estimate {
        value: estimate.value.exp(),
        bounds: estimate.bounds.map(|(low, high)| (low.exp(), high.exp())),
        count: estimate.count,
    })
}

/// Returns the finite values in ascending order.
pub(crate) fn sorted_finite(values: &[f64]) -> Vec<f64> {
    let mut finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    finite
}

/// Returns the median of sorted values, or `None` if there are none.
pub(crate) fn middle(sorted: &[f64]) -> Option<f64> {
    let half = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted.get(half).copied(),
        _ => Some(f64::midpoint(
            *sorted.get(half.checked_sub(1)?)?,
            sorted[half],
        )),
    }
}

/// Returns the narrowest symmetric ranks (from 0) whose values enclose the median with
/// [`CONFIDENCE`].
pub(crate) fn median_ranks(count: usize) -> Option<(usize, usize)> {
    // The number of values below the median is binomial.
    let below = Binomial::new(0.5, count as u64).ok()?;
    let is_rare = |rank: &usize| 1.0 - 2.0 * below.cdf(*rank as u64) >= CONFIDENCE;
    let low = (0..count / 2).take_while(is_rare).last()?;
    Some((low, count - 1 - low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn median_of_few_values() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[f64::NAN]), None);
        assert_eq!(median(&[3.0, 1.0]).unwrap().value, 2.0);
        assert_eq!(median(&[3.0, 1.0, 2.0, 5.0, 4.0]).unwrap().bounds, None);
        let six = median(&[6.0, 1.0, 2.0, 5.0, 4.0, 3.0]).unwrap();
        assert_eq!(
            six,
            Estimate {
                value: 3.5,
                bounds: Some((1.0, 6.0)),
                count: 6
            }
        );
    }

    #[test]
    fn median_ranks_match_the_tables() {
        assert_eq!(median_ranks(10), Some((1, 8)));
        assert_eq!(median_ranks(20), Some((5, 14)));
        assert_eq!(median_ranks(50), Some((17, 32)));
        assert!(median_ranks(5000).is_some());
    }

    #[test]
    fn mean_with_interval() {
        let estimate = mean(&[1.0, 2.0, 3.0]).unwrap();
        let (low, high) = estimate.bounds.unwrap();
        assert!((low - (2.0 - 4.302_653 / 3.0_f64.sqrt())).abs() < 1e-6);
        assert!((high + low - 4.0).abs() < 1e-9);
        assert_eq!(mean(&[4.0]).unwrap().bounds, None);
    }

    #[test]
    fn ratio_of_a_constant_factor_is_exact() {
        let pairs = [
            (1.2, 1.0),
            (2.4, 2.0),
            (6.0, 5.0),
            (0.0, 1.0),
            (1.0, f64::NAN),
        ];
        let estimate = ratio_of_pairs(&pairs).unwrap();
        assert_eq!(estimate.count, 3);
        assert!((estimate.value - 1.2).abs() < 1e-12);
        let (low, high) = estimate.bounds.unwrap();
        assert!((high - low).abs() < 1e-9);
        assert_eq!(ratio_of_pairs(&[(1.0, 0.0)]), None);
    }

    #[test]
    fn zero_and_negative_values_give_the_arithmetic_mean() {
        assert_eq!(repetition_mean(&[0.0, 3.0]), Some(1.5));
        assert_eq!(repetition_mean(&[-1.0, 3.0]), Some(1.0));
        assert_eq!(repetition_mean(&[f64::NAN, 0.1, 0.1, 0.1]), Some(0.1));
        assert_eq!(repetition_mean(&[]), None);
        let mean = repetition_mean(&[2.0, 8.0]).unwrap();
        assert!((mean - 4.0).abs() < 1e-12, "{mean}");
    }

    #[test]
    fn ratio_has_paired_interval_only_for_same_repetitions() {
        let side =
            |values: &[f64]| -> Vec<(u64, f64)> { (1..).zip(values.iter().copied()).collect() };
        let (own, base) = (side(&[2.0, 20.0, 200.0]), side(&[1.0, 10.0, 100.0]));
        let paired = repetition_ratio(&own, &base).unwrap();
        let (low, high) = paired.bounds.unwrap();
        assert!(
            (paired.value - 2.0).abs() < 1e-9 && high - low < 1e-9,
            "{paired:?}"
        );
        let unpaired = repetition_ratio(&own, &base[..2]).unwrap();
        assert!(
            (unpaired.value - 20.0 / 10.0_f64.sqrt()).abs() < 1e-9,
            "{unpaired:?}"
        );
        let (low, high) = unpaired.bounds.unwrap();
        assert!(low < 1.0 && high > 10.0, "{unpaired:?}");
        // A repetition that occurs twice would be paired twice, and another one excluded.
        let twice = [(2, 7100.0), (3, 7700.0), (2, 6700.0)];
        let twice = repetition_ratio(&twice, &side(&[0.01, 6700.0, 3400.0])).unwrap();
        let (low, high) = twice.bounds.unwrap();
        assert!(low < twice.value && twice.value < high, "{twice:?}");
        let with_zero = repetition_ratio(&side(&[0.0, 4.0]), &side(&[1.0, 1.0])).unwrap();
        assert_eq!((with_zero.value, with_zero.bounds), (2.0, None));
        assert_eq!(repetition_ratio(&own, &side(&[0.0])), None);
    }

    proptest! {
        #[test]
        fn ratio_is_the_quotient_of_means(
            sides in proptest::collection::vec((1_u64..6, 0.01..1e4_f64, 0.01..1e4_f64), 1..8),
            turn in 0_usize..8,
        ) {
            let mut own: Vec<(u64, f64)> = sides.iter().map(|(n, own, _)| (*n, *own)).collect();
            own.dedup_by_key(|(n, _)| *n);
            let base: Vec<(u64, f64)> = (1..).zip(sides.iter().map(|(_, _, base)| *base)).collect();
            let mean = |side: &[(u64, f64)]| {
                let values: Vec<f64> = side.iter().map(|(_, value)| *value).collect();
                repetition_mean(&values).unwrap()
            };
            let found = repetition_ratio(&own, &base).unwrap();
            let quotient = mean(&own) / mean(&base);
            prop_assert!((found.value / quotient - 1.0).abs() < 1e-9);
            if let Some((low, high)) = found.bounds {
                let (low, high) = (low / (1.0 + 1e-9), high * (1.0 + 1e-9));
                prop_assert!(low <= found.value && found.value <= high);
            }
            let length = own.len();
            own.rotate_left(turn % length);
            prop_assert_eq!(mean(&own) / mean(&base), quotient);
        }

        #[test]
        fn interval_contains_the_median(values in proptest::collection::vec(-1e6..1e6_f64, 6..80)) {
            let estimate = median(&values).unwrap();
            let (low, high) = estimate.bounds.unwrap();
            prop_assert!(low <= estimate.value && estimate.value <= high);
        }
    }
}
