//! The answer in a sentence for each library.

use super::{RatioVerdict, cells, null_test, reference};
use crate::run::Libraries;

/// What the cells say of one library beside the first, by the quantity that each cell is about.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VerdictCounts {
    /// Cells in which it is faster.
    pub faster: usize,
    /// Cells in which it is slower.
    pub slower: usize,
    /// Cells whose interval contains 100.
    pub no_difference: usize,
    /// Cells with too few pairs for an interval.
    pub too_few: usize,
}

impl VerdictCounts {
    /// Cells that both measured.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.faster + self.slower + self.no_difference + self.too_few
    }
}

/// Of all cells in which `counts` is true.
#[must_use]
pub fn tally(
    libraries: &Libraries,
    other: &str,
    counts: impl Fn(&crate::run::LibraryCell) -> bool,
) -> VerdictCounts {
    let mut tally = VerdictCounts::default();
    for view in cells(libraries).iter().filter(|view| counts(view.cell)) {
        let compared = view.compare(view.headline(), other);
        match compared.and_then(|it| it.pairs).map(|it| it.shown()) {
            Some(RatioVerdict::FirstBetter) => tally.slower += 1,
            Some(RatioVerdict::OtherBetter) => tally.faster += 1,
            Some(RatioVerdict::NoDifference) => tally.no_difference += 1,
            Some(RatioVerdict::TooFew) => tally.too_few += 1,
            None => {}
        }
    }
    tally
}

/// What the run says of each library beside the first; of a null test, how many cells say nothing.
#[must_use]
pub fn verdict(libraries: &Libraries) -> String {
    let Some(first) = reference(libraries) else {
        return "No library took part.".to_owned();
    };
    if libraries.null_test {
        return null_verdict(libraries);
    }
    let others = libraries.drivers.iter().filter(|it| it.name != first.name);
    let told: Vec<String> = others
        .filter_map(|other| {
            let tally = tally(libraries, &other.name, |_| true);
            (tally.cells() > 0).then(|| format!("{} {}", other.name, in_words(&tally)))
        })
        .collect();
    let failed: Vec<&str> = libraries
        .drivers
        .iter()
        .filter(|driver| driver.failed.is_some())
        .map(|driver| driver.name.as_str())
        .collect();
    let mut text = match told.is_empty() {
        true => format!("Nothing was measured beside {}.", first.name),
        false => format!("Against {}: {}.", first.name, told.join("; ")),
    };
    if !failed.is_empty() {
        text.push_str(&format!(" Given up: {}.", failed.join(", ")));
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

fn null_verdict(libraries: &Libraries) -> String {
    let coverage = null_test(libraries).headline;
    match coverage.share() {
        Some(share) => format!(
            "One library against itself: {} of {} intervals contain 100 % ({:.1} %).",
            coverage.containing,
            coverage.intervals,
            share * 100.0
        ),
        None => "One library against itself: too few repetitions for an interval.".to_owned(),
    }
}
