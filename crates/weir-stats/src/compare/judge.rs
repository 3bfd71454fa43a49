//! Verdict on one metric, and correction for several metrics.

use super::two_sided::{LogRatio, noise_share, permutation_p, values_needed};
use crate::interval::repetition_mean;
use crate::run::{MetricComparison, Verdict};

/// The values of one metric on both sides.
#[derive(Debug, Clone, Copy)]
pub(super) struct MetricSides<'a> {
    pub(super) base: &'a [f64],
    pub(super) other: &'a [f64],
    pub(super) lower_is_better: bool,
    /// Margin: differences up to this share do not matter.
    pub(super) margin_share: f64,
    /// Share by which two runs of the same subject differed.
    pub(super) aa_share: Option<f64>,
}

impl MetricSides<'_> {
    /// Returns the comparison, without the names.
    pub(super) fn judge(&self) -> MetricComparison {
        let ratio = LogRatio::of(self.base, self.other);
        let interval = ratio.map(|ratio| ratio.interval());
        let (verdict, reason) = match (ratio, interval) {
            _ if self.is_zero() => (Verdict::Equivalent, "0 on both sides".to_owned()),
            (Some(_), Some(interval)) => self.by_interval(interval),
            _ => self.by_permutation(),
        };
        let undecided = verdict == Verdict::Inconclusive;
        MetricComparison {
            lower_is_better: self.lower_is_better,
            base_values: self.base.to_vec(),
            other_values: self.other.to_vec(),
            ratio: self.ratio(),
            ratio_low: interval.map(|(low, _)| low.exp()),
            ratio_high: interval.map(|(_, high)| high.exp()),
            permutation_p: permutation_p(self.base, self.other),
            noise_share: noise_share(self.base, self.other),
            aa_share: self.aa_share,
            verdict,
            reason,
            repetitions_needed: ratio
                .filter(|_| undecided)
                .and_then(|ratio| self.repetitions_needed(&ratio)),
            ..MetricComparison::default()
        }
    }

    /// Returns the ratio of the means that tables show.
    fn ratio(&self) -> Option<f64> {
        let base = repetition_mean(self.base).filter(|base| *base > 0.0)?;
        repetition_mean(self.other).map(|other| other / base)
    }

    /// Returns the margin as a logarithm. The A/A difference applies if it is larger.
    fn limit(&self) -> f64 {
        self.margin_share.max(self.aa_share.unwrap_or(0.0)).ln_1p()
    }

    /// Returns a human-readable description of the margin.
    fn limit_text(&self) -> String {
        let percent = format!("{:.1}", self.limit().exp_m1() * 100.0);
        let percent = percent.strip_suffix(".0").unwrap_or(&percent);
        match self.aa_share {
            Some(aa) if aa > self.margin_share => {
                format!("{percent} %, by which two runs of the same subject differed")
            }
            _ => format!("the margin of {percent} %"),
        }
    }

    fn is_zero(&self) -> bool {
        let has = !self.base.is_empty() && !self.other.is_empty();
        let mut all = self.base.iter().chain(self.other);
        has && all.all(|value| *value == 0.0)
    }

    fn by_interval(&self, (low, high): (f64, f64)) -> (Verdict, String) {
        let limit = self.limit();
        let (above, below) = match self.lower_is_better {
            true => (Verdict::Worse, Verdict::Better),
            false => (Verdict::Better, Verdict::Worse),
        };
        let (verdict, reason) = if low > limit {
            (above, "the whole interval is above")
        } else if high < -limit {
            (below, "the whole interval is below")
        } else if low > -limit && high < limit {
            (Verdict::Equivalent, "the whole interval is inside")
        } else if low > 0.0 || high < 0.0 {
            (
                Verdict::Inconclusive,
                "they differ, but perhaps by less than",
            )
        } else {
            (Verdict::Inconclusive, "the interval reaches beyond")
        };
        (verdict, format!("{reason} {}", self.limit_text()))
    }

    /// Returns the verdict for values with zeros, which have no logarithms and no ratio.
    fn by_permutation(&self) -> (Verdict, String) {
        let fewest = self.base.len().min(self.other.len());
        if fewest == 0 {
            return (Verdict::Inconclusive, "one side has no value".to_owned());
        }
        if fewest == 1 {
            let reason = "one repetition does not show the variation: run 5 of each";
            return (Verdict::Inconclusive, reason.to_owned());
        }
        match permutation_p(self.base, self.other) {
            Some(p) if p <= SIGNIFICANT => {
                let is_less = mean(self.other) < mean(self.base);
                let is_shown_less = repetition_mean(self.other) < repetition_mean(self.base);
                let verdict = match is_less == self.lower_is_better {
                    // Only possible if one side has a zero and the other has none.
                    _ if is_less != is_shown_less => Verdict::Inconclusive,
                    true => Verdict::Better,
                    false => Verdict::Worse,
                };
                (verdict, format!("permutation test, p = {p:.3}"))
            }
            Some(p) => (
                Verdict::Inconclusive,
                format!("has zeros; permutation test, p = {p:.2}"),
            ),
            None => (Verdict::Inconclusive, "has zeros".to_owned()),
        }
    }

    /// Returns the number of repetitions after which the interval would be inside or outside the
    /// margin if the estimate stays the same.
    fn repetitions_needed(&self, ratio: &LogRatio) -> Option<u64> {
        let half = (ratio.estimate.abs() - self.limit()).abs();
        values_needed(self.base, self.other, half)
    }

    /// Returns the probability of the observed difference if the other side were exactly at the
    /// margin.
    pub(super) fn chance(&self) -> Option<f64> {
        let (base, other) = match self.lower_is_better {
            true => (self.base, self.other),
            false => (self.other, self.base),
        };
        match LogRatio::of(base, other) {
            Some(ratio) => Some(ratio.chance_above(self.limit())),
            None => permutation_p(self.base, self.other).map(|p| p / 2.0),
        }
    }
}

/// Returns the probabilities that are significant after Holm's correction: the smallest is compared
/// with the limit divided by `count`, the next with the limit divided by `count - 1`, until one
/// fails.
pub(super) fn holm(chances: &[f64]) -> Vec<bool> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|a, b| chances[*a].total_cmp(&chances[*b]));
    let mut counts = vec![false; chances.len()];
    for (rank, index) in order.into_iter().enumerate() {
        let share = (chances.len() - rank) as f64;
        let is_small = chances[index] * share <= SIGNIFICANT / 2.0;
        if !is_small {
            break;
        }
        counts[index] = true;
    }
    counts
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

const SIGNIFICANT: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(base: &[f64], other: &[f64]) -> MetricComparison {
        let sides = MetricSides {
            base,
            other,
            lower_is_better: true,
            margin_share: 0.03,
            aa_share: None,
        };
        sides.judge()
    }

    const BASE: [f64; 5] = [100.0, 101.0, 99.0, 100.5, 99.5];

    #[test]
    fn every_verdict_is_possible() {
        let times = |factor: f64| BASE.map(|value| value * factor);
        let worse = judge(&BASE, &times(1.1));
        assert_eq!(worse.verdict, Verdict::Worse, "{worse:?}");
        assert!((worse.ratio.unwrap() - 1.1).abs() < 1e-9);
        assert!(worse.ratio_low < worse.ratio && worse.ratio < worse.ratio_high);
        assert_eq!(judge(&BASE, &times(0.9)).verdict, Verdict::Better);
        assert_eq!(judge(&BASE, &times(1.005)).verdict, Verdict::Equivalent);
        let between = judge(&BASE, &times(1.033));
        assert_eq!(between.verdict, Verdict::Inconclusive);
        assert_eq!(
            between.reason,
            "they differ, but perhaps by less than the margin of 3 %"
        );
        assert!(between.repetitions_needed > Some(5), "{between:?}");
    }

    #[test]
    fn higher_rates_are_better() {
        let sides = MetricSides {
            base: &BASE,
            other: &BASE.map(|value| value * 1.2),
            lower_is_better: false,
            margin_share: 0.03,
            aa_share: None,
        };
        assert_eq!(sides.judge().verdict, Verdict::Better);
        assert!(sides.chance().unwrap() > 0.99);
    }

    #[test]
    fn aa_difference_widens_the_margin() {
        let sides = MetricSides {
            base: &BASE,
            other: &BASE.map(|value| value * 1.1),
            lower_is_better: true,
            margin_share: 0.03,
            aa_share: Some(0.12),
        };
        let judged = sides.judge();
        assert_ne!(judged.verdict, Verdict::Worse);
        assert!(
            judged
                .reason
                .ends_with("two runs of the same subject differed"),
            "{}",
            judged.reason
        );
    }

    #[test]
    fn one_repetition_is_inconclusive() {
        let one = judge(&[100.0], &[900.0]);
        assert_eq!(one.verdict, Verdict::Inconclusive);
        assert!(one.reason.contains("run 5 of each"), "{one:?}");
        // The ratio exists, its interval does not.
        assert_eq!(one.ratio, Some(9.0));
        assert_eq!((one.ratio_low, one.ratio_high), (None, None));
        assert_eq!((one.repetitions_needed, one.noise_share), (None, None));
        assert_eq!(judge(&[], &[1.0]).reason, "one side has no value");
    }

    #[test]
    fn zero_counts_are_compared() {
        assert_eq!(judge(&[0.0; 3], &[0.0; 3]).verdict, Verdict::Equivalent);
        let lossy = judge(&[0.0; 5], &[3.0, 9.0, 4.0, 7.0, 5.0]);
        assert_eq!(lossy.verdict, Verdict::Worse);
        assert_eq!(
            judge(&[0.0; 3], &[0.0, 0.0, 4.0]).verdict,
            Verdict::Inconclusive
        );
        assert_eq!(judge(&[0.0; 5], &[9.0; 5]).ratio, None);
    }

    #[test]
    fn holm_stops_at_the_first_failure() {
        assert_eq!(holm(&[0.02]), [true]);
        assert_eq!(holm(&[0.02, 0.5]), [false, false]);
        assert_eq!(holm(&[0.5, 0.001, 0.012]), [false, true, true]);
        assert_eq!(holm(&[f64::NAN, 0.001]), [false, true]);
        assert!(holm(&[]).is_empty());
    }
}
