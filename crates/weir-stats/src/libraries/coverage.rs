//! The A/A test of a library: the number of cells whose interval correctly contains 100 %.

use super::{QUANTITIES, Quantity, RatioVerdict, VerdictCounts, cells};
use crate::run::Libraries;

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
#[must_use]
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
