//! Number of cells by verdict, and the A/A test of a library: the number of cells whose interval
//! correctly contains 100 %.

use super::{CellView, QUANTITIES, Quantity, RatioVerdict, cells};
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
    pub fn cells(&self) -> usize {
        self.intervals() + self.too_few
    }

    /// Returns the number of cells with an interval.
    pub fn intervals(&self) -> usize {
        self.faster + self.slower + self.no_difference
    }

    /// Returns the share of intervals that contain 100 %; `None` without intervals.
    pub fn share(&self) -> Option<f64> {
        let intervals = self.intervals();
        (intervals > 0).then(|| self.no_difference as f64 / intervals as f64)
    }

    fn add(&mut self, verdict: RatioVerdict) {
        *match verdict {
            RatioVerdict::FirstBetter => &mut self.slower,
            RatioVerdict::OtherBetter => &mut self.faster,
            RatioVerdict::NoDifference => &mut self.no_difference,
            RatioVerdict::TooFew => &mut self.too_few,
        } += 1;
    }

    /// Returns the counts above 0, each with its word from `words`: faster, slower, no difference
    /// and too few pairs.
    pub fn parts(&self, words: [&'static str; 4]) -> Vec<(usize, &'static str)> {
        let counts = [self.faster, self.slower, self.no_difference, self.too_few];
        let parts = counts.into_iter().zip(words);
        parts.filter(|(count, _)| *count > 0).collect()
    }
}

/// Counts the verdicts of `cells` on a library.
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

/// The result of an A/A test of a library.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AaTest {
    /// Verdicts on the headline quantity of each cell.
    pub headline: VerdictCounts,
    /// Verdicts on the CPU time per record.
    pub cpu: VerdictCounts,
    /// Cells whose interval of the headline quantity does not contain 100 %, with the median ratio
    /// in percent.
    pub outside: Vec<(String, f64)>,
}

/// Evaluates all cells and all drivers other than the reference.
pub fn aa_test(libraries: &Libraries) -> AaTest {
    let mut test = AaTest::default();
    let cpu = Quantity::named("cpu_us_per_record").unwrap_or(&QUANTITIES[0]);
    for cell in cells(libraries) {
        for other in cell.others() {
            let of = |quantity| cell.compare(quantity, &other.driver.name)?.pairs;
            if let Some(ratio) = of(cpu) {
                test.cpu.add(ratio.verdict());
            }
            let Some(ratio) = of(cell.headline()) else {
                continue;
            };
            let verdict = ratio.verdict();
            test.headline.add(verdict);
            if matches!(
                verdict,
                RatioVerdict::FirstBetter | RatioVerdict::OtherBetter
            ) {
                test.outside.push((cell.cell.name.clone(), ratio.percent));
            }
        }
    }
    test
}
