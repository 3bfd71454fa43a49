//! Detection of the steady state of a series, and of outliers.
//!
//! The end of the warm-up is found by the marginal standard error rule (MSER): it removes the
//! number of initial values for which the mean of the others has the smallest standard error. If
//! that is half of the series, there is no steady state.

use crate::trend;

/// Returns the number of initial values to exclude so that the others are in steady state. Returns
/// `None` if they are not, or if there are fewer than [`VALUES_MIN`] values.
pub fn warm_up_len(values: &[f64]) -> Option<usize> {
    let logs: Vec<f64> = values.iter().map(|value| log_scale(*value)).collect();
    if logs.len() < VALUES_MIN || logs.iter().any(|value| !value.is_finite()) {
        return None;
    }
    // Beyond one half, the remaining values are too often similar by chance.
    let last = logs.len() / 2;
    let best = (0..=last)
        .map(|skipped| (skipped, squared_standard_error(&logs[skipped..])))
        .min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))?;
    (best.0 < last).then_some(best.0)
}

/// Returns the positions of values far above the others: more than twice their median, and more
/// than five median absolute deviations above it.
pub fn outliers(values: &[f64]) -> Vec<usize> {
    let Some((middle, spread)) = trend::median_and_spread(values) else {
        return Vec::new();
    };
    let limit = (middle + OUTLIER_SPREADS * spread).max(2.0 * middle);
    let is_outlier = |value: &f64| values.len() >= VALUES_MIN && *value > limit;
    let found = values.iter().enumerate().filter(|(_, v)| is_outlier(v));
    found.map(|(index, _)| index).collect()
}

/// Converts a response time to a logarithmic scale, on which a value ten times too large has the
/// same weight as one ten times too small.
fn log_scale(value: f64) -> f64 {
    value.max(f64::MIN_POSITIVE).ln()
}

/// Returns the squared standard error of the mean, which MSER minimizes.
fn squared_standard_error(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    squares / (count * count)
}

/// Minimum number of values for a result.
pub const VALUES_MIN: usize = 5;
/// Number of median absolute deviations above the median from which a value is an outlier. Random
/// values are rarely that far away.
const OUTLIER_SPREADS: f64 = 5.0;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Reproducible random numbers for tests.
    pub(crate) struct Noise(u64);

    impl Noise {
        pub(crate) fn new(seed: u64) -> Self {
            Self(seed)
        }

        /// Returns a uniform number between 0 and 1.
        pub(crate) fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// Returns a normal number with mean 0 and variance 1.
        pub(crate) fn normal(&mut self) -> f64 {
            let radius = (-2.0 * (1.0 - self.unit()).ln()).sqrt();
            radius * (std::f64::consts::TAU * self.unit()).cos()
        }
    }

    /// Generates a series around 1 that varies by `noise`.
    fn noise(count: u64, noise: f64, seed: u64) -> impl Iterator<Item = f64> {
        let mut random = Noise::new(seed);
        (0..count).map(move |_| 1.0 + noise * (2.0 * random.unit() - 1.0))
    }

    #[test]
    fn decaying_start_is_excluded() {
        for seed in 0..20 {
            let values: Vec<f64> = noise(60, 0.1, seed)
                .enumerate()
                .map(|(second, value)| value * (1.0 + 30.0 * (-(second as f64) / 2.0).exp()))
                .collect();
            let skipped = warm_up_len(&values).expect("a steady state");
            assert!((5..=20).contains(&skipped), "seed {seed}: {skipped}");
        }
    }

    #[test]
    fn steady_series_loses_few_values() {
        let mut lost = 0;
        for seed in 0..50 {
            let values: Vec<f64> = noise(40, 0.2, seed * 1000).collect();
            lost += warm_up_len(&values).map_or(20, |skipped| skipped);
        }
        assert!(lost / 50 <= 5, "{lost} of 2000 values excluded");
        assert_eq!(warm_up_len(&[2.0; 8]), Some(0));
    }

    #[test]
    fn growing_series_has_no_steady_state() {
        let growing: Vec<f64> = (1..=30).map(|second| f64::from(second * second)).collect();
        assert_eq!(warm_up_len(&growing), None);
        let jump: Vec<f64> = [vec![1.0; 15], vec![50.0; 15]].concat();
        assert_eq!(warm_up_len(&jump), None, "a new level in the middle");
        assert_eq!(warm_up_len(&[1.0; 4]), None, "too few");
    }

    #[test]
    fn single_outliers_are_found() {
        let mut values: Vec<f64> = noise(20, 0.1, 7).collect();
        values[3] = 9.0;
        values[12] = 4.0;
        assert_eq!(outliers(&values), [3, 12]);
        assert!(outliers(&[1.0, 9.0]).is_empty());
        assert!(outliers(&[1.0; 12]).is_empty());
    }
}
