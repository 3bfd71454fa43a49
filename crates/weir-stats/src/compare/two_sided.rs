//! Statistics of two small samples: ratio with interval, exact permutation test, and the sample
//! size needed.

use statrs::statistics::Statistics;

use crate::student_t;

/// The ratio of two samples of positive values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LogRatio {
    /// Logarithm of the ratio, other over base.
    pub(super) estimate: f64,
    /// Standard error.
    error: f64,
    /// Degrees of freedom by Welch and Satterthwaite.
    degrees: f64,
}

impl LogRatio {
    /// Returns the ratio, or `None` unless both sides have at least two values, all of them
    /// positive.
    pub(crate) fn of(base: &[f64], other: &[f64]) -> Option<Self> {
        let (base, other) = (Logs::of(base)?, Logs::of(other)?);
        let (a, b) = (base.squared_error(), other.squared_error());
        let error = (a + b).sqrt();
        let pooled = a * a / (base.count - 1.0) + b * b / (other.count - 1.0);
        // Equal values have no error, so the degrees of freedom have no effect.
        let degrees = match pooled > 0.0 {
            true => (a + b).powi(2) / pooled,
            false => base.count + other.count - 2.0,
        };
        Some(Self {
            estimate: other.mean - base.mean,
            error,
            degrees,
        })
    }

    /// Returns the 95 % confidence interval.
    pub(crate) fn interval(&self) -> (f64, f64) {
        let half = student_t::quantile(0.975, self.degrees) * self.error;
        (self.estimate - half, self.estimate + half)
    }

    /// Returns the probability of an estimate at least this far above `limit` if the true value is
    /// `limit`.
    pub(super) fn chance_above(&self, limit: f64) -> f64 {
        let distance = self.estimate - limit;
        match self.error > 0.0 {
            true => 1.0 - student_t::cdf(distance / self.error, self.degrees),
            false if distance > 0.0 => 0.0,
            false => 1.0,
        }
    }
}

/// Mean and variance of logarithms.
#[derive(Debug, Clone, Copy)]
struct Logs {
    count: f64,
    mean: f64,
    variance: f64,
}

impl Logs {
    fn of(values: &[f64]) -> Option<Self> {
        let usable = |value: &f64| value.is_finite() && *value > 0.0;
        if values.len() < 2 || !values.iter().all(usable) {
            return None;
        }
        let logs: Vec<f64> = values.iter().map(|value| value.ln()).collect();
        Some(Self {
            count: logs.len() as f64,
            mean: logs.iter().mean(),
            variance: logs.iter().variance(),
        })
    }

    fn squared_error(&self) -> f64 {
        self.variance / self.count
    }
}

/// Returns the share by which two values of the same side differ at most in 95 % of cases, from the
/// variation inside both sides. Returns `None` if no side has two positive values.
pub(super) fn noise_share(base: &[f64], other: &[f64]) -> Option<f64> {
    let sides: Vec<Logs> = [base, other].into_iter().filter_map(Logs::of).collect();
    let degrees: f64 = sides.iter().map(|side| side.count - 1.0).sum();
    let squares: f64 = sides.iter().map(|s| s.variance * (s.count - 1.0)).sum();
    (degrees > 0.0).then(|| {
        let deviation = (squares / degrees * 2.0).sqrt();
        (student_t::quantile(0.975, degrees) * deviation).exp_m1()
    })
}

/// Returns the half width of the interval between two sides like this one, as a share: smaller
/// differences are noise. Returns `None` unless there are two positive values.
pub(crate) fn half_width(values: &[f64]) -> Option<f64> {
    let side = Logs::of(values)?;
    let degrees = 2.0 * (side.count - 1.0);
    let error = (2.0 * side.squared_error()).sqrt();
    Some((student_t::quantile(0.975, degrees) * error).exp_m1())
}

/// Returns the number of values per side for which the interval probably extends at most `half`, a
/// logarithm, to each side. Returns `None` above `VALUES_NEEDED_MAX` and for unusable values.
pub(super) fn values_needed(base: &[f64], other: &[f64], half: f64) -> Option<u64> {
    let (base, other) = (Logs::of(base)?, Logs::of(other)?);
    let variance = base.variance + other.variance;
    if half <= 0.0 {
        return None;
    }
    let enough = |count: u64| {
        let quantile = student_t::quantile(0.975, 2.0 * (count as f64 - 1.0));
        quantile * (variance / count as f64).sqrt() <= half
    };
    let (mut low, mut high) = (1, 2);
    while !enough(high) {
        (low, high) = (high, high * 2);
        if high > VALUES_NEEDED_MAX {
            return None;
        }
    }
    while high - low > 1 {
        let middle = low.midpoint(high);
        match enough(middle) {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high)
}

/// Returns the p-value of the exact two-sided permutation test of the difference of means: the
/// share of all divisions of the values that differ at least as much. Returns `None` if there are
/// too many divisions, or one side is empty.
pub(super) fn permutation_p(base: &[f64], other: &[f64]) -> Option<f64> {
    let all: Vec<f64> = base.iter().chain(other).copied().collect();
    let usable = !base.is_empty() && !other.is_empty() && all.iter().all(|v| v.is_finite());
    if !usable || all.len() > PERMUTED_VALUES_MAX {
        return None;
    }
    let total: f64 = all.iter().sum();
    let difference = |sum: f64| {
        let rest = (all.len() - base.len()) as f64;
        ((total - sum) / rest - sum / base.len() as f64).abs()
    };
    let seen = difference(base.iter().sum());
    // Rounding differences between equal sums must not count.
    let limit = seen - 1e-9 * seen.max(f64::MIN_POSITIVE);
    let (mut ways, mut as_far) = (0_u64, 0_u64);
    for chosen in 0_u32..1 << all.len() {
        if chosen.count_ones() as usize != base.len() {
            continue;
        }
        let picked = all.iter().enumerate().filter(|(i, _)| chosen >> i & 1 == 1);
        ways += 1;
        as_far += u64::from(difference(picked.map(|(_, value)| value).sum()) >= limit);
    }
    Some(as_far as f64 / ways as f64)
}

/// Maximum number of values on both sides together; 12,870 divisions for eight and eight.
const PERMUTED_VALUES_MAX: usize = 16;
/// Upper limit of useful advice on the number of repetitions.
const VALUES_NEEDED_MAX: u64 = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_factor_has_no_error() {
        let ratio = LogRatio::of(&[2.0, 2.0, 2.0], &[3.0, 3.0, 3.0]).unwrap();
        assert!((ratio.estimate.exp() - 1.5).abs() < 1e-12);
        let (low, high) = ratio.interval();
        assert!((high - low).abs() < 1e-12);
        assert_eq!(
            (ratio.chance_above(0.1), ratio.chance_above(0.9)),
            (0.0, 1.0)
        );
        assert_eq!(LogRatio::of(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(LogRatio::of(&[1.0, 0.0], &[1.0, 2.0]), None);
    }

    /// The expected values of Welch's interval are calculated by hand.
    #[test]
    fn interval_matches_welch() {
        let exp = |values: [f64; 3]| values.map(f64::exp);
        let ratio = LogRatio::of(&exp([1.0, 2.0, 3.0]), &exp([4.0, 6.0, 8.0])).unwrap();
        assert!((ratio.estimate - 4.0).abs() < 1e-12);
        // Variances 1 and 4, three values each: error sqrt(5/3),
        // degrees (5/3)^2 / ((1/9 + 16/9) / 2).
        assert!((ratio.error - (5.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((ratio.degrees - 50.0 / 17.0).abs() < 1e-9);
    }

    #[test]
    fn permutations_are_counted_exactly() {
        let p = permutation_p(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert!((p - 0.1).abs() < 1e-12, "2 of 20 ways: {p}");
        let p = permutation_p(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]).unwrap();
        assert!((p - 2.0 / 70.0).abs() < 1e-12, "{p}");
        assert_eq!(permutation_p(&[0.0; 3], &[0.0; 3]), Some(1.0));
        assert_eq!(permutation_p(&[1.0; 15], &[1.0; 15]), None);
        assert_eq!(permutation_p(&[], &[1.0]), None);
    }

    #[test]
    fn noise_determines_values_needed() {
        let quiet = [100.0, 101.0, 99.0, 100.5, 99.5];
        let loud = [100.0, 130.0, 80.0, 110.0, 90.0];
        let noise = |values: &[f64]| noise_share(values, values).unwrap();
        assert!(noise(&quiet) < 0.04 && noise(&loud) > 0.4);
        assert_eq!(noise_share(&[1.0], &[2.0]), None);
        let needed = |values: &[f64], half: f64| values_needed(values, values, half);
        assert!(needed(&quiet, 0.02).unwrap() <= 5);
        let more = needed(&loud, 0.05).unwrap();
        assert!((50..200).contains(&more), "{more}");
        assert_eq!(needed(&loud, 1e-4), None);
        assert_eq!(needed(&loud, 0.0), None);
    }
}
