//! Student's t distribution for any degrees of freedom, integer or not.

/// Returns the probability that a t variable with `degrees` of freedom is at most `t`.
///
/// Returns `NaN` if either is not a number or `degrees` is not positive.
pub fn cdf(t: f64, degrees: f64) -> f64 {
    if t.is_nan() || degrees.is_nan() || degrees <= 0.0 {
        return f64::NAN;
    }
    if t.is_infinite() {
        return if t > 0.0 { 1.0 } else { 0.0 };
    }
    let tail = 0.5 * beta_share(degrees / (degrees + t * t), degrees / 2.0, 0.5);
    if t > 0.0 { 1.0 - tail } else { tail }
}

/// Returns the value that a t variable with `degrees` of freedom does not exceed with
/// `probability`, which is between 0 and 1.
pub fn quantile(probability: f64, degrees: f64) -> f64 {
    let is_inside = probability > 0.0 && probability < 1.0 && degrees > 0.0;
    if !is_inside {
        return f64::NAN;
    }
    if probability < 0.5 {
        return -quantile(1.0 - probability, degrees);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while cdf(high, degrees) < probability && high < HIGHEST {
        high *= 2.0;
    }
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        match cdf(middle, degrees) < probability {
            true => low = middle,
            false => high = middle,
        }
    }
    f64::midpoint(low, high)
}

/// Returns the regularized incomplete beta function from its continued fraction, which converges
/// fast on the side of the mean where it is used.
fn beta_share(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    if x < (a + 1.0) / (a + b + 2.0) {
        front * fraction(x, a, b) / a
    } else {
        1.0 - front * fraction(1.0 - x, b, a) / b
    }
}

/// Evaluates the continued fraction forwards with Lentz's method.
fn fraction(x: f64, a: f64, b: f64) -> f64 {
    let away_from_zero = |value: f64| if value.abs() < TINY { TINY } else { value };
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let (mut c, mut result) = (1.0, d);
    for step in 1..=STEPS_MAX {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut change = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            change = c * d;
            result *= change;
        }
        if (change - 1.0).abs() < PRECISION {
            break;
        }
    }
    result
}

/// Returns the logarithm of the gamma function for positive numbers: Stirling's series after the
/// recurrence.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let inverse = 1.0 / x;
    let square = inverse * inverse;
    let series =
        inverse * (1.0 / 12.0 - square * (1.0 / 360.0 - square * (1.0 / 1260.0 - square / 1680.0)));
    (x - 0.5) * x.ln() - x + 0.5 * std::f64::consts::TAU.ln() + series - shift
}

const TINY: f64 = 1e-300;
const PRECISION: f64 = 1e-14;
const STEPS_MAX: u32 = 300;
/// Above any requested quantile.
const HIGHEST: f64 = 1e12;
/// Enough for the full precision of a number.
const HALVINGS: u32 = 90;

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
