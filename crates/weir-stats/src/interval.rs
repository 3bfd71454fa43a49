//! Medians, means and ratios of a few repeated figures, each with a 95 % interval.
//!
//! The unit of replication is the run or window handed in; latencies inside one run belong in a
//! [`Histogram`](crate::Histogram). Everything is deterministic.

use crate::student;

/// A figure and the interval that holds the true one with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// Bounds of the interval; `None` with too few values for one.
    pub bounds: Option<(f64, f64)>,
    /// Number of values behind it.
    pub count: usize,
}

/// Confidence that an order-statistic interval must reach.
const CONFIDENCE: f64 = 0.95;

/// Median with an interval from order statistics, which assumes nothing of the distribution.
///
/// Six values are the fewest that give an interval. `None` without finite values.
pub fn median(values: &[f64]) -> Option<Estimate> {
    let sorted = sorted_finite(values);
    let count = sorted.len();
    let value = match (count / 2, count % 2) {
        (0, 0) => return None,
        (half, 1) => sorted[half],
        (half, _) => f64::midpoint(sorted[half - 1], sorted[half]),
    };
    let bounds = median_ranks(count).map(|(low, high)| (sorted[low], sorted[high]));
    Some(Estimate {
        value,
        bounds,
        count,
    })
}

/// Mean with Student's t interval; two values are the fewest that give one. `None` without finite values.
pub fn mean(values: &[f64]) -> Option<Estimate> {
    let finite = sorted_finite(values);
    let count = finite.len();
    if count == 0 {
        return None;
    }
    let value = finite.iter().sum::<f64>() / count as f64;
    let bounds = (count > 1).then(|| {
        let squares: f64 = finite.iter().map(|x| (x - value).powi(2)).sum();
        let error = (squares / (count - 1) as f64 / count as f64).sqrt();
        let half = t_quantile(count - 1) * error;
        (value - half, value + half)
    });
    Some(Estimate {
        value,
        bounds,
        count,
    })
}

/// Geometric mean of `a / b` over pairs measured side by side, with a t interval on the logarithms.
///
/// Pairs in which either is not a positive number are left out. `None` without pairs.
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

fn sorted_finite(values: &[f64]) -> Vec<f64> {
    let mut finite: Vec<f64> = values
        .iter()
        .copied()
        .filter(|value| value.is_finite())
        .collect();
    finite.sort_by(f64::total_cmp);
    finite
}

/// Narrowest symmetric ranks (from 0) whose values enclose the median with the wanted confidence.
pub(crate) fn median_ranks(count: usize) -> Option<(usize, usize)> {
    let mut best = None;
    // Chance that fewer than `low + 1` of the values lie below the median: binomial with p = 1/2.
    let mut probability = 0.5_f64.powi(i32::try_from(count).ok()?);
    if probability == 0.0 {
        return Some(normal_ranks(count));
    }
    let mut tail = 0.0;
    for low in 0..count / 2 {
        tail += probability;
        if 1.0 - 2.0 * tail < CONFIDENCE {
            break;
        }
        best = Some((low, count - 1 - low));
        probability *= (count - low) as f64 / (low + 1) as f64;
    }
    best
}

/// The same by the normal approximation, for counts whose binomial underflows.
fn normal_ranks(count: usize) -> (usize, usize) {
    let low = (count as f64 / 2.0 - 0.98 * (count as f64).sqrt()).floor() as usize;
    (low, count - 1 - low)
}

/// 97.5 % quantile of Student's t.
fn t_quantile(degrees: usize) -> f64 {
    student::quantile(0.5 + CONFIDENCE / 2.0, degrees as f64)
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

    proptest! {
        #[test]
        fn the_interval_holds_the_median(values in proptest::collection::vec(-1e6..1e6_f64, 6..80)) {
            let estimate = median(&values).unwrap();
            let (low, high) = estimate.bounds.unwrap();
            prop_assert!(low <= estimate.value && estimate.value <= high);
        }
    }
}
