//! Student's t distribution for any degrees of freedom, integer or not.

use statrs::distribution::{Continuous, ContinuousCDF, StudentsT};

/// Returns the probability that a t variable with `degrees` of freedom is at most `t`.
///
/// Returns `NaN` if either is not a number or `degrees` is not positive.
pub fn cdf(t: f64, degrees: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, degrees) {
        Ok(distribution) if !t.is_nan() => distribution.cdf(t),
        _ => f64::NAN,
    }
}

/// Returns the value that a t variable with `degrees` of freedom does not exceed with
/// `probability`, which is between 0 and 1.
pub fn quantile(probability: f64, degrees: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, degrees) {
        Ok(distribution) if probability > 0.0 && probability < 1.0 => {
            let value = distribution.inverse_cdf(probability);
            // One step of Newton's method: with a million degrees, the value is 1e-4 off.
            value - (distribution.cdf(value) - probability) / distribution.pdf(value)
        }
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_the_tables() {
        let rows = [
            (0.975, 1.0, 12.706_205),
            (0.975, 2.0, 4.302_653),
            (0.975, 4.0, 2.776_445),
            (0.975, 9.0, 2.262_157),
            (0.975, 30.0, 2.042_272),
            (0.95, 5.0, 2.015_048),
            (0.995, 8.0, 3.355_387),
            (0.975, 1e6, 1.959_966),
        ];
        for (probability, degrees, expected) in rows {
            let value = quantile(probability, degrees);
            assert!((value / expected - 1.0).abs() < 1e-5, "{degrees}: {value}");
            assert!((quantile(1.0 - probability, degrees) + value).abs() < 1e-9);
        }
    }

    #[test]
    fn distribution_is_symmetric_and_ends_at_one() {
        assert!((cdf(0.0, 3.0) - 0.5).abs() < 1e-12);
        // With one degree of freedom it is the Cauchy distribution; with two it also has a closed
        // form.
        assert!((cdf(1.0, 1.0) - 0.75).abs() < 1e-12);
        let two = 0.5 + 1.5 / (2.0 * (2.0 + 1.5_f64 * 1.5).sqrt());
        assert!((cdf(1.5, 2.0) - two).abs() < 1e-12);
        assert_eq!(cdf(f64::INFINITY, 2.0), 1.0);
        assert!(cdf(1.0, 0.0).is_nan() && quantile(1.0, 3.0).is_nan());
    }

    #[test]
    fn fractional_degrees_lie_between_integers() {
        let (low, middle, high) = (
            quantile(0.975, 6.0),
            quantile(0.975, 5.5),
            quantile(0.975, 5.0),
        );
        assert!(low < middle && middle < high);
    }
}
