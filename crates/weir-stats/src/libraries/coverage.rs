//! The A/A test of a library: the number of cells whose interval correctly contains 100 %.

use super::{QUANTITIES, Quantity, RatioVerdict, cells};
use crate::run::Libraries;

/// Number of intervals that contain 100 %.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Coverage {
    /// Comparisons with an interval.
    pub intervals: usize,
    /// Of these, intervals that contain 100 %.
    pub containing: usize,
}

impl Coverage {
    /// Returns the share of intervals that contain 100 %; `None` without intervals.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        (self.intervals > 0).then(|| self.containing as f64 / self.intervals as f64)
    }

    fn add(&mut self, shown: RatioVerdict) {
        self.intervals += usize::from(shown != RatioVerdict::TooFew);
        self.containing += usize::from(shown == RatioVerdict::NoDifference);
    }
}

/// A comparison whose interval does not contain 100 %.
#[derive(Debug, Clone, PartialEq)]
pub struct Outside {
    /// Name of the cell.
    pub cell: String,
    /// Name of the other driver.
    pub other: String,
    /// Name of the quantity.
    pub quantity: &'static str,
    /// Median ratio in percent.
    pub percent: f64,
}

/// The result of an A/A test of a library.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AaTest {
    /// Coverage for the headline quantity of each cell.
    pub headline: Coverage,
    /// Coverage for CPU time per record.
    pub cpu: Coverage,
    /// Headline comparisons whose interval does not contain 100 %, in the order of the cells.
    pub outside: Vec<Outside>,
}

/// Evaluates all cells and all drivers other than the reference.
#[must_use]
pub fn aa_test(libraries: &Libraries) -> AaTest {
    let mut test = AaTest::default();
    let cpu = Quantity::named("cpu_us_per_record").unwrap_or(&QUANTITIES[0]);
    for cell in cells(libraries) {
        for other in cell.others() {
            let name = &other.driver.name;
            let of = |quantity| cell.compare(quantity, name)?.pairs;
            if let Some(ratio) = of(cpu) {
                test.cpu.add(ratio.verdict());
            }
            let headline = cell.headline();
            let Some(ratio) = of(headline) else { continue };
            test.headline.add(ratio.verdict());
            if matches!(
                ratio.verdict(),
                RatioVerdict::FirstBetter | RatioVerdict::OtherBetter
            ) {
                test.outside.push(Outside {
                    cell: cell.cell.name.clone(),
                    other: name.clone(),
                    quantity: headline.name,
                    percent: ratio.percent,
                });
            }
        }
    }
    test
}
