//! Distributions from drivers: merging, percentiles and curves.

use std::collections::BTreeMap;

use crate::histogram::samples_needed;
use crate::run::Distribution;

impl Distribution {
    /// Returns the distribution of all values in `all`.
    pub fn merged<'a>(all: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut pairs = BTreeMap::<u64, u64>::new();
        let mut merged = Self {
            min_us: u64::MAX,
            ..Self::default()
        };
        for one in all.into_iter().filter(|one| one.values() > 0) {
            for (value_us, count) in &one.pairs {
                let here = pairs.entry(*value_us).or_default();
                *here = here.saturating_add(*count);
            }
            merged.count = merged.count.saturating_add(one.values());
            merged.sum_us = merged.sum_us.saturating_add(one.sum_us);
            merged.min_us = merged.min_us.min(one.min_us);
            merged.max_us = merged.max_us.max(one.max_us);
        }
        merged.pairs = pairs.into_iter().collect();
        if merged.count == 0 {
            merged.min_us = 0;
        }
        merged
    }

    /// Returns the distribution with only the pairs of the median, the 99th percentile and the
    /// maximum. These, the mean and the number of values stay the same.
    pub fn thinned(&self) -> Self {
        let all = self.values();
        let mut pairs: Vec<(u64, u64)> = Vec::new();
        let mut below = 0;
        for percent in [50.0, 99.0, 100.0] {
            let rank = ((all as f64 * percent / 100.0).ceil().max(1.0) as u64).min(all);
            let Some(value_us) = self.percentile_us(percent).filter(|_| rank > below) else {
                continue;
            };
            match pairs.last_mut() {
                Some(last) if last.0 == value_us => last.1 += rank - below,
                _ => pairs.push((value_us, rank - below)),
            }
            below = rank;
        }
        Self {
            pairs,
            ..self.clone()
        }
    }

    /// Returns [`percentile_us`](Self::percentile_us), but `None` with too few values for that
    /// percentile.
    pub fn supported_percentile_us(&self, percentile: f64) -> Option<f64> {
        let percentile_us = self.percentile_us(percentile)?;
        (self.values() >= samples_needed(percentile)).then_some(percentile_us as f64)
    }

    /// Returns points of the distribution function: a value, and the share of values up to it.
    /// Returns about `points` points, always with the first and the last one and the rare ones near
    /// the end.
    pub fn curve(&self, points: usize) -> Vec<(f64, f64)> {
        let all = self.values();
        if all == 0 {
            return Vec::new();
        }
        // Above 90 %, each further nine gets a fifth of the points.
        let step = |share: f64| match share {
            share if share < 0.9 => 0.9 / (points.max(10) as f64 * 0.6),
            share => (1.0 - share) / (points.max(10) as f64 * 0.08),
        };
        let (mut below, mut next, mut curve) = (0_u64, 0.0, Vec::new());
        let last = self.pairs.len() - 1;
        for (index, (value_us, count)) in self.pairs.iter().enumerate() {
            below = below.saturating_add(*count);
            let share = below as f64 / all as f64;
            if index == 0 || index == last || share >= next {
                curve.push((*value_us as f64, share));
                next = share + step(share);
            }
        }
        curve
    }

    /// Returns the number of values in the pairs, regardless of `count`.
    pub(crate) fn values(&self) -> u64 {
        let counts = self.pairs.iter().map(|(_, count)| *count);
        counts.fold(0, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Distribution {
        let mut pairs = BTreeMap::<u64, u64>::new();
        for value in values {
            *pairs.entry(*value).or_default() += 1;
        }
        Distribution {
            count: values.len() as u64,
            sum_us: values.iter().sum(),
            min_us: values.iter().min().copied().unwrap_or(0),
            max_us: values.iter().max().copied().unwrap_or(0),
            pairs: pairs.into_iter().collect(),
        }
    }

    #[test]
    fn percentiles_are_ranks() {
        let hundred: Vec<u64> = (1..=100).collect();
        let it = of(&hundred);
        assert_eq!(it.supported_percentile_us(50.0), Some(50.0));
        assert_eq!(it.supported_percentile_us(90.0), Some(90.0));
        assert_eq!(it.supported_percentile_us(0.0), Some(1.0));
        assert_eq!(it.supported_percentile_us(99.0), None, "needs 299 values");
        let empty = Distribution::merged([]);
        assert_eq!(empty, Distribution::default());
        assert_eq!(empty.supported_percentile_us(50.0), None);
        assert!(empty.curve(10).is_empty());
    }

    #[test]
    fn impossible_counts_are_handled() {
        let mut odd = of(&[1, 2]);
        odd.pairs = vec![(1, u64::MAX), (2, u64::MAX)];
        let merged = Distribution::merged([&odd, &odd]);
        assert_eq!(merged.supported_percentile_us(50.0), Some(1.0));
        assert!(!merged.curve(10).is_empty());
    }

    proptest! {
        #[test]
        fn thinned_distribution_has_the_same_results(
            values in proptest::collection::vec(0..3000_u64, 0..700),
        ) {
            let (all, thin) = (of(&values), of(&values).thinned());
            prop_assert!(thin.pairs.len() <= 3);
            for percent in [50.0, 99.0, 100.0] {
                prop_assert_eq!(thin.percentile_us(percent), all.percentile_us(percent));
                let (thin, all) = (&thin, &all);
                let of = |it: &Distribution| it.supported_percentile_us(percent);
                prop_assert_eq!(of(thin), of(all));
            }
            prop_assert_eq!(thin.values(), all.values());
            prop_assert_eq!(thin.mean_us(), all.mean_us());
            prop_assert_eq!(thin.thinned(), thin);
        }

        #[test]
        fn merged_equals_all_values_at_once(
            a in proptest::collection::vec(0..5000_u64, 0..200),
            b in proptest::collection::vec(0..5000_u64, 0..200),
        ) {
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(Distribution::merged([&of(&a), &of(&b)]), of(&both));
        }

        #[test]
        fn curve_rises_to_one_and_stays_short(
            values in proptest::collection::vec(0..1_000_000_u64, 1..2000),
        ) {
            let curve = of(&values).curve(60);
            prop_assert!(curve.len() < 120, "{}", curve.len());
            prop_assert!(curve.windows(2).all(|two| two[0].0 < two[1].0 && two[0].1 < two[1].1));
            prop_assert_eq!(curve.last().unwrap().1, 1.0);
            prop_assert_eq!(curve[0].0, *values.iter().min().unwrap() as f64);
        }
    }
}
