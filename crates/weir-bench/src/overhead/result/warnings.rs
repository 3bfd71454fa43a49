//! Warnings about valid results.

use weir_stats::run::{Cell, Run};

use crate::figure_names::RATE;

/// Returns one warning per load that missed its rate, and one if other processes used the machine.
pub(super) fn of(run: &Run) -> Vec<String> {
    let valid = || run.cells.iter().filter(|cell| cell.is_valid());
    let mut warnings: Vec<String> = Vec::new();
    for cell in valid().filter(|cell| is_rate_missed(cell)) {
        let subject = cell.variant.as_deref().unwrap_or_default();
        let rate = cell.parameters.get(RATE).copied().unwrap_or_default();
        let same = |other: &&Cell| {
            other.architecture == cell.architecture
                && other.variant == cell.variant
                && other.parameters == cell.parameters
        };
        let (all, missed) = valid().filter(same).fold((0, 0), |(all, missed), other| {
            (all + 1, missed + usize::from(is_rate_missed(other)))
        });
        let text = format!(
            "{} at {rate} records/s, {subject}: less than 99 % of the rate was reached in \
             {missed} of {all} repetitions; these latencies include queueing",
            cell.architecture
        );
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }
    let cores = run.machine.cpu_cores as f64;
    let is_noisy = |cell: &&Cell| {
        let machine = cell.machine.as_ref();
        machine.is_some_and(|machine| {
            machine.other_processes_cores > cores * OTHER_PROCESSES_WARN_SHARE
                || machine.steal_share > OTHER_PROCESSES_WARN_SHARE
        })
    };
    let (noisy, all) = (valid().filter(is_noisy).count(), valid().count());
    if noisy > 0 {
        warnings.push(format!(
            "processes other than broker, proxy and client used more than {:.0} % of the machine \
             in {noisy} of {all} cells",
            OTHER_PROCESSES_WARN_SHARE * 100.0
        ));
    }
    warnings
}

/// Returns `true` if a cell with a fixed rate did not reach it.
pub(super) fn is_rate_missed(cell: &Cell) -> bool {
    let pair = cell
        .parameters
        .get(RATE)
        .zip(cell.figures.get("records_per_s"));
    pair.is_some_and(|(rate, reached)| *reached < rate * RATE_SHARE)
}

const RATE_SHARE: f64 = 0.99;
/// Same limit as for samples of client libraries.
const OTHER_PROCESSES_WARN_SHARE: f64 = 0.10;
