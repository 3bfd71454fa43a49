//! A one-sentence verdict for each library.

use super::{CellView, RatioVerdict, aa_test, cells, reference};
use crate::run::Libraries;

/// Number of cells by verdict for one library compared with the reference, by headline quantity.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerdictCounts {
    /// Cells in which the library is faster.
    pub faster: usize,
    /// Cells in which the library is slower.
    pub slower: usize,
    /// Cells whose interval contains 100.
    pub no_difference: usize,
    /// Cells with too few pairs for an interval.
    pub too_few: usize,
}

impl VerdictCounts {
    /// Returns the number of cells that both libraries measured.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.intervals() + self.too_few
    }

    /// Returns the number of cells with an interval.
    #[must_use]
    pub fn intervals(&self) -> usize {
        self.faster + self.slower + self.no_difference
    }

    /// Returns the share of intervals that contain 100 %; `None` without intervals.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        let intervals = self.intervals();
        (intervals > 0).then(|| self.no_difference as f64 / intervals as f64)
    }

    pub(super) fn add(&mut self, verdict: RatioVerdict) {
        *match verdict {
            RatioVerdict::FirstBetter => &mut self.slower,
            RatioVerdict::OtherBetter => &mut self.faster,
            RatioVerdict::NoDifference => &mut self.no_difference,
            RatioVerdict::TooFew => &mut self.too_few,
        } += 1;
    }

    /// Returns the counts above 0, each with its word from `words`: faster, slower, no difference
    /// and too few pairs.
    #[must_use]
    pub fn parts(&self, words: [&'static str; 4]) -> Vec<(usize, &'static str)> {
        let counts = [self.faster, self.slower, self.no_difference, self.too_few];
        let parts = counts.into_iter().zip(words);
        parts.filter(|(count, _)| *count > 0).collect()
    }
}

/// Counts the verdicts of `cells` on a library.
#[must_use]
pub fn count_verdicts(cells: &[CellView<'_>], other: &str) -> VerdictCounts {
    let mut tally = VerdictCounts::default();
    for view in cells {
        let compared = view.compare(view.headline(), other);
        if let Some(pairs) = compared.and_then(|it| it.pairs) {
            tally.add(pairs.verdict());
        }
    }
    tally
}

/// Returns the verdict of the run on each library; for an A/A test, the coverage.
#[must_use]
pub fn verdict(libraries: &Libraries) -> String {
    let Some(first) = reference(libraries) else {
        return "No library was measured.".to_owned();
    };
    if libraries.aa_test {
        return aa_verdict(libraries);
    }
    let cells = cells(libraries);
    let others = libraries.drivers.iter().filter(|it| it.name != first.name);
    let verdicts: Vec<String> = others
        .filter_map(|other| {
            let tally = count_verdicts(&cells, &other.name);
            (tally.cells() > 0).then(|| format!("{} {}", other.name, in_words(&tally)))
        })
        .collect();
    let failed = libraries.drivers.iter().filter(|it| it.failed.is_some());
    let failed: Vec<&str> = failed.map(|driver| driver.name.as_str()).collect();
    let mut text = match verdicts.is_empty() {
        true => format!("Nothing was measured except {}.", first.name),
        false => format!("Compared with {}: {}.", first.name, verdicts.join("; ")),
    };
    if !failed.is_empty() {
        text.push_str(&format!(" Failed: {}.", failed.join(", ")));
    }
    text
}

fn in_words(tally: &VerdictCounts) -> String {
    let words = [
        "faster",
        "slower",
        "not shown to differ",
        "without an interval",
    ];
    let parts = tally.parts(words).into_iter();
    let parts: Vec<String> = parts
        .map(|(count, word)| format!("{word} in {count}"))
        .collect();
    let cells = match tally.cells() {
        1 => "1 cell".to_owned(),
        more => format!("{more} cells"),
    };
    format!("{} of {cells}", parts.join(", "))
}

fn aa_verdict(libraries: &Libraries) -> String {
    let tally = aa_test(libraries).headline;
    match tally.share() {
        Some(share) => format!(
            "A/A test of one library: {} of {} intervals contain 100 % ({:.1} %).",
            tally.no_difference,
            tally.intervals(),
            share * 100.0
        ),
        None => "A/A test of one library: too few repetitions for an interval.".to_owned(),
    }
}
