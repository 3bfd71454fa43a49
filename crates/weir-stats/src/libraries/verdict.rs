//! A one-sentence verdict for each library.

use super::{RatioVerdict, aa_test, cells, reference};
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
        self.faster + self.slower + self.no_difference + self.too_few
    }
}

/// Counts the verdicts of the cells for which `counts` returns `true`.
#[must_use]
pub fn count_verdicts(
    libraries: &Libraries,
    other: &str,
    counts: impl Fn(&crate::run::LibraryCell) -> bool,
) -> VerdictCounts {
    let mut tally = VerdictCounts::default();
    for view in cells(libraries).iter().filter(|view| counts(view.cell)) {
        let compared = view.compare(view.headline(), other);
        match compared.and_then(|it| it.pairs).map(|it| it.verdict()) {
            Some(RatioVerdict::FirstBetter) => tally.slower += 1,
            Some(RatioVerdict::OtherBetter) => tally.faster += 1,
            Some(RatioVerdict::NoDifference) => tally.no_difference += 1,
            Some(RatioVerdict::TooFew) => tally.too_few += 1,
            None => {}
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
    let others = libraries.drivers.iter().filter(|it| it.name != first.name);
    let verdicts: Vec<String> = others
        .filter_map(|other| {
            let tally = count_verdicts(libraries, &other.name, |_| true);
            (tally.cells() > 0).then(|| format!("{} {}", other.name, in_words(&tally)))
        })
        .collect();
    let failed: Vec<&str> = libraries
        .drivers
        .iter()
        .filter(|driver| driver.failed.is_some())
        .map(|driver| driver.name.as_str())
        .collect();
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
    let parts = [
        (tally.faster, "faster"),
        (tally.slower, "slower"),
        (tally.no_difference, "not shown to differ"),
        (tally.too_few, "without an interval"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{word} in {count}"))
        .collect();
    let cells = match tally.cells() {
        1 => "1 cell".to_owned(),
        more => format!("{more} cells"),
    };
    format!("{} of {cells}", parts.join(", "))
}

fn aa_verdict(libraries: &Libraries) -> String {
    let coverage = aa_test(libraries).headline;
    match coverage.share() {
        Some(share) => format!(
            "A/A test of one library: {} of {} intervals contain 100 % ({:.1} %).",
            coverage.containing,
            coverage.intervals,
            share * 100.0
        ),
        None => "A/A test of one library: too few repetitions for an interval.".to_owned(),
    }
}
