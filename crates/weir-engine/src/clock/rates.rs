//! Rates that fit the samples of a clock.

/// Best sample of a window: limits of the offset at one time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sample {
    /// Time since the first exchange.
    pub(super) at_s: f64,
    pub(super) low_ns: f64,
    pub(super) high_ns: f64,
}

impl Sample {
    pub(super) fn width_ns(&self) -> f64 {
        self.high_ns - self.low_ns
    }
}

/// Lowest and highest rate of an offset, in nanoseconds per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rates {
    low: f64,
    high: f64,
}

impl Rates {
    /// Returns the rates of all lines through the limits of the samples. A real clock differs from
    /// a line by [`WANDER`]. Returns `None` if there is no line.
    pub(super) fn of(samples: &[Sample]) -> Option<Self> {
        let (mut low, mut high) = (-RATE_MAX, RATE_MAX);
        for (index, later) in samples.iter().enumerate() {
            for earlier in &samples[..index] {
                let span_s = later.at_s - earlier.at_s;
                low = low.max((later.low_ns - earlier.high_ns) / span_s - WANDER);
                high = high.min((later.high_ns - earlier.low_ns) / span_s + WANDER);
            }
        }
        (low <= high).then_some(Self { low, high })
    }

    pub(super) fn middle(&self) -> f64 {
        f64::midpoint(self.low, self.high)
    }

    /// Returns the limits of the offset at another time, before or after the sample.
    pub(super) fn from(&self, sample: &Sample, at_s: f64) -> (f64, f64) {
        let after_s = at_s - sample.at_s;
        let (slowest, fastest) = (self.low - WANDER, self.high + WANDER);
        let (a, b) = (slowest * after_s, fastest * after_s);
        (sample.low_ns + a.min(b), sample.high_ns + a.max(b))
    }
}

/// Highest rate of an offset that clocks have: Linux corrects rates by at most 500 ppm.
pub(super) const RATE_MAX: f64 = 6e5;
/// Change of a clock's rate around its mean, in nanoseconds per second: 2 ppm.
const WANDER: f64 = 2e3;
