//! Trends of short series, robust against single values.

use crate::interval::{middle, sorted_finite};

/// Returns the median slope of all pairs of points (Theil–Sen), or `None` with fewer than two
/// points of different abscissa.
pub fn theil_sen(points: &[(f64, f64)]) -> Option<f64> {
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (index, (x, y)) in points.iter().enumerate() {
        for (later_x, later_y) in &points[index + 1..] {
            slopes.push((later_y - y) / (later_x - x));
        }
    }
    middle(&sorted_finite(&slopes))
}

/// Returns the change over a series of equal steps from its first to its last value by
/// [`theil_sen`], as a share of its median.
pub fn drift_share(values: &[f64]) -> Option<f64> {
    let points: Vec<(f64, f64)> = values
        .iter()
        .enumerate()
        .filter(|(_, value)| value.is_finite())
        .map(|(index, value)| (index as f64, *value))
        .collect();
    let (first, last) = (points.first()?.0, points.last()?.0);
    let slope = theil_sen(&points)?;
    let middle = middle(&sorted_finite(values))?;
    (middle != 0.0).then(|| slope * (last - first) / middle)
}

/// Returns the median of the values and the median of their distances from it.
pub(crate) fn median_and_spread(values: &[f64]) -> Option<(f64, f64)> {
    let finite = sorted_finite(values);
    let median = middle(&finite)?;
    let distances: Vec<f64> = finite.iter().map(|value| (value - median).abs()).collect();
    Some((median, middle(&sorted_finite(&distances))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_is_robust_against_outliers() {
        let mut points: Vec<(f64, f64)> = (0..20)
            .map(|x| (f64::from(x), 3.0 + 2.0 * f64::from(x)))
            .collect();
        points[4].1 = 900.0;
        points[11].1 = -500.0;
        assert!((theil_sen(&points).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(theil_sen(&points[..1]), None);
        assert_eq!(theil_sen(&[(1.0, 1.0), (1.0, 2.0)]), None);
    }

    #[test]
    fn drift_is_a_share_of_the_median() {
        assert_eq!(drift_share(&[10.0, 10.0, 10.0]), Some(0.0));
        assert_eq!(drift_share(&[8.0, 10.0, 12.0]), Some(0.4));
        assert_eq!(drift_share(&[0.0, 0.0]), None);
        assert_eq!(drift_share(&[f64::NAN, 1.0]), None);
    }

    #[test]
    fn spread_is_a_median() {
        assert_eq!(
            median_and_spread(&[1.0, 2.0, 3.0, 4.0, 900.0]),
            Some((3.0, 1.0))
        );
        assert_eq!(median_and_spread(&[]), None);
    }
}
