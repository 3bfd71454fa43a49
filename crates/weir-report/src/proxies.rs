//! The subjects of a comparison of proxies at the maximum rate.

use weir_stats::run::{Cell, Repetitions, Run};

/// Metric of the throughput.
pub(crate) const RATE: &str = "records_per_s";

/// Returns the subjects that produced at the maximum rate; none for other runs.
pub(crate) fn at_maximum_rate(run: &Run) -> Vec<Repetitions<'_>> {
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
