//! A ring of the latest samples, numbered from 1.

use std::collections::VecDeque;

/// One value per column; NaN if unknown.
pub(super) type Sample = Vec<f32>;

/// Number of samples stored, those of the last hour.
const SAMPLES_MAX: usize = 1_800;

#[derive(Debug, Default)]
pub(super) struct SampleRing {
    samples: VecDeque<Sample>,
    newest: u64,
}

impl SampleRing {
    pub(super) fn push(&mut self, sample: Sample) {
        if self.samples.len() == SAMPLES_MAX {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.newest += 1;
    }

    /// Returns the samples with a number above `after`, and the number to use in the next call. A
    /// number from before a restart may be higher than any here; then all samples are returned.
    pub(super) fn after(&self, after: u64) -> (Vec<Vec<Option<f64>>>, u64) {
        let after = if after > self.newest { 0 } else { after };
        let wanted = usize::try_from(self.newest - after).unwrap_or(usize::MAX);
        let skipped = self.samples.len().saturating_sub(wanted);
        let rows = self.samples.iter().skip(skipped);
        (rows.map(|sample| rounded(sample)).collect(), self.newest)
    }
}

/// Rounds values to two decimals, enough for a chart.
fn rounded(sample: &[f32]) -> Vec<Option<f64>> {
    let round = |value: &f32| {
        let value = f64::from(*value);
        value.is_finite().then(|| (value * 100.0).round() / 100.0)
    };
    sample.iter().map(round).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latest_samples_are_returned_once() {
        let mut ring = SampleRing::default();
        assert_eq!(ring.after(0), (vec![], 0));
        let last = SAMPLES_MAX as u64 + 2;
        for value in 1..=last {
            ring.push(vec![value as f32]);
        }
        let firsts = |after| {
            let (rows, next) = ring.after(after);
            assert_eq!(next, last);
            let values: Vec<_> = rows.iter().map(|row| row[0].unwrap()).collect();
            (values.first().copied(), values.len())
        };
        assert_eq!(firsts(0), (Some(3.0), SAMPLES_MAX));
        assert_eq!(firsts(last - 1), (Some(last as f64), 1));
        assert_eq!(firsts(last), (None, 0));
        assert_eq!(firsts(last + 94), (Some(3.0), SAMPLES_MAX));
    }

    #[test]
    fn values_are_rounded_and_gaps_are_null() {
        assert_eq!(rounded(&[1.23456, f32::NAN]), [Some(1.23), None]);
    }
}
