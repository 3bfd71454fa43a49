//! Axis scales and ticks at round values.

/// A mapping from values to the range 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
}

impl Scale {
    /// Returns a linear scale from zero to a round number at or above all values.
    pub(crate) fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let high = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        if high <= 0.0 {
            return Self::between(0.0, 1.0);
        }
        // The margin separates the line of the highest value from the frame.
        let high = high * 1.04;
        let step = round_up(high / 5.0 * 0.999);
        Self::between(0.0, (high / step).ceil() * step)
    }

    /// Returns a linear scale between two bounds.
    pub(crate) fn between(low: f64, high: f64) -> Self {
        Self {
            low,
            high: if high > low { high } else { low + 1.0 },
            is_log: false,
        }
    }

    /// Returns a logarithmic scale between two positive bounds.
    pub(crate) fn log_between(low: f64, high: f64) -> Self {
        Self {
            low,
            high: if high > low { high } else { low * 10.0 },
            is_log: true,
        }
    }

    /// Returns a logarithmic scale over all positive values, widened to round bounds.
    pub(crate) fn log(values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|value| *value > 0.0 && value.is_finite());
        let ends = positive.map(|value| (value, value));
        match ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
            Some((low, high)) => Self::log_between(round_down(low), round_up(high)),
            None => Self::log_between(1.0, 10.0),
        }
    }

    /// Returns the position of a value on the axis, 0 at the low end; values outside are clamped.
    pub(crate) fn fraction(self, value: f64) -> f64 {
        let place = match self.is_log {
            true => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        place.clamp(0.0, 1.0)
    }

    /// Returns three to seven values for grid lines.
    pub(crate) fn ticks(self) -> Vec<f64> {
        if self.is_log {
            return log_ticks(self.low, self.high);
        }
        let step = round_up((self.high - self.low) / 5.0 * 0.999);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    }
}

fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let decades = (high / low).log10();
    let factors: &[f64] = match decades {
        d if d <= 2.1 => &[1.0, 2.0, 5.0],
        d if d <= 3.1 => &[1.0, 3.0],
        _ => &[1.0],
    };
    let first = low.log10().floor() as i32;
    let last = high.log10().ceil() as i32;
    (first..=last)
        .flat_map(|exponent| {
            factors
                .iter()
                .map(move |factor| factor * 10_f64.powi(exponent))
        })
        .filter(|tick| *tick >= low * 0.999 && *tick <= high * 1.001)
        .collect()
}

/// Returns the nearest value at or below that is 1, 2 or 5 times a power of ten.
fn round_down(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor());
    let mut steps = [5.0, 2.0, 1.0].into_iter();
    steps.find(|step| step * unit <= value).unwrap_or(1.0) * unit
}

/// Returns the nearest value at or above that is 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let unit = 10_f64.powf(value.log10().floor());
    let mut steps = [1.0, 2.0, 5.0].into_iter();
    steps.find(|step| step * unit >= value).unwrap_or(10.0) * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round() {
        let scale = Scale::from_zero([3.0, 87.0].into_iter());
        assert_eq!(scale, Scale::between(0.0, 100.0));
        assert_eq!(scale.ticks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(Scale::from_zero(std::iter::empty()).ticks().len(), 6);
    }

    #[test]
    fn log_ticks_become_sparser_with_range() {
        let scale = Scale::log([1.3, 42.0].into_iter());
        assert_eq!(scale.ticks(), [1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!(Scale::log([1.0, 9e5].into_iter()).ticks().len(), 7);
        let none = Scale::log([0.0, -1.0].into_iter());
        assert_eq!(none, Scale::log_between(1.0, 10.0));
        assert!(!Scale::log([5.0].into_iter()).ticks().is_empty());
    }

    #[test]
    fn positions_are_clamped() {
        let scale = Scale::log_between(1.0, 100.0);
        assert_eq!(scale.fraction(10.0), 0.5);
        assert_eq!(scale.fraction(0.0), 0.0);
        assert_eq!(scale.fraction(1e9), 1.0);
    }
}
