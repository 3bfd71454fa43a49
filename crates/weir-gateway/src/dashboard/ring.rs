//! A ring of the latest samples, numbered from 1.

use std::collections::VecDeque;

/// One value per column; NaN if unknown.
pub(super) type Sample = Vec<f32>;

/// Samples with a maximum number.
#[derive(Debug)]
pub(super) struct SampleRing {
    capacity: usize,
    samples: VecDeque<Sample>,
    /// Number of the next sample.
    next: u64,
}

impl SampleRing {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            samples: VecDeque::new(),
            next: 1,
        }
    }

    pub(super) fn push(&mut self, sample: Sample) {
        if self.samples.len() == self.capacity {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        self.next += 1;
    }

    /// Returns the samples with a number above `after`, and the number to use in the next call. A
    /// number from before a restart may be higher than any here; then all samples are returned.
    pub(super) fn after(&self, after: u64) -> (Vec<Vec<Option<f64>>>, u64) {
        let newest = self.next - 1;
        let after = if after > newest { 0 } else { after };
        let wanted = usize::try_from(newest - after).unwrap_or(usize::MAX);
        let skipped = self.samples.len().saturating_sub(wanted);
        let rows = self.samples.iter().skip(skipped);
        (rows.map(|sample| rounded(sample)).collect(), newest)
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
        let mut ring = SampleRing::new(3);
        assert_eq!(ring.after(0), (vec![], 0));
        for value in 1..=5 {
            ring.push(vec![value as f32]);
        }
        let firsts = |after| {
            let (rows, next) = ring.after(after);
            (
                rows.iter().map(|row| row[0].unwrap()).collect::<Vec<_>>(),
                next,
            )
        };
        assert_eq!(firsts(0), (vec![3.0, 4.0, 5.0], 5));
        assert_eq!(firsts(4), (vec![5.0], 5));
        assert_eq!(firsts(5), (vec![], 5));
        assert_eq!(firsts(99), (vec![3.0, 4.0, 5.0], 5));
    }

    #[test]
    fn values_are_rounded_and_gaps_are_null() {
        assert_eq!(rounded(&[1.23456, f32::NAN]), [Some(1.23), None]);
    }
}
