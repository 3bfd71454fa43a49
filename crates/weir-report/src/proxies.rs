//! The subjects of a comparison of proxies at the maximum rate.

use std::collections::BTreeSet;

use weir_stats::run::{Cell, Repetitions, Run};

/// Metric of the throughput.
pub(crate) const RATE: &str = "records_per_s";

/// Returns the subjects that produced at the maximum rate, each with the repetitions that all of
/// them have, if these are several; none for other runs. The machine may be slower in rounds that
/// only some subjects have.
pub(crate) fn at_maximum_rate(run: &Run) -> Vec<Repetitions<'_>> {
    let all = of_all_rounds(run);
    let numbers = |it: &Repetitions<'_>| -> BTreeSet<u64> {
        it.valid().map(|cell| cell.repetition).collect()
    };
    let common = all.iter().map(numbers).reduce(|one, other| &one & &other);
    let common = common.unwrap_or_default();
    if common.len() < 2 {
        return all;
    }
    let is_common = |cell: &&Cell| common.contains(&cell.repetition);
    Repetitions::group(
        all.iter()
            .flat_map(|it| it.cells.iter().copied())
            .filter(is_common),
    )
}

/// Returns `true` if some subjects have repetitions that others have not.
pub(crate) fn has_other_rounds(run: &Run) -> bool {
    let count = |all: &[Repetitions<'_>]| all.iter().map(|it| it.valid().count()).sum::<usize>();
    count(&of_all_rounds(run)) > count(&at_maximum_rate(run))
}

fn of_all_rounds(run: &Run) -> Vec<Repetitions<'_>> {
    let is_main = |cell: &&Cell| {
        cell.repetition > 0
            && cell.architecture == "produce"
            && cell.parameters.is_empty()
            && cell.variant.is_some()
    };
    Repetitions::group(run.cells.iter().filter(is_main))
}

/// Returns the value of a metric over the repetitions of a subject.
pub(crate) fn figure(subject: &Repetitions<'_>, name: &str) -> Option<f64> {
    subject.mean(|cell| cell.figures.get(name).copied())
}
