//! Jobs: cells that run together. A job is one cell, or in the legacy profile a produce cell and
//! its consume cell.

use std::ops::Range;

use super::grid::LibraryCellSpec;
use super::profile::{DriverOperation, Profile};

/// Cells whose repetitions share topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicJob {
    /// Indexes in the run's list.
    pub(super) steps: Range<usize>,
    /// `true` for one topic for all drivers and repetitions, `false` for one per driver and
    /// repetition.
    pub(super) is_shared: bool,
}

/// Returns all jobs in order.
pub(super) fn jobs(profile: Profile, cells: &[LibraryCellSpec]) -> Vec<TopicJob> {
    let mut jobs: Vec<TopicJob> = Vec::new();
    let is_legacy = profile == Profile::Legacy;
    let mut at = 0;
    while let Some(spec) = cells.get(at) {
        let runs = |next: &&LibraryCellSpec| {
            let skipped = [&next.cell.skipped, &spec.cell.skipped].map(Option::is_some);
            next.consumes_of(spec) && skipped[0] == skipped[1]
        };
        let with_next = is_legacy && cells.get(at + 1).filter(runs).is_some();
        let steps = at..at + 1 + usize::from(with_next);
        at = steps.end;
        jobs.push(TopicJob {
            steps,
            is_shared: spec.operation() == DriverOperation::Consume && !is_legacy,
        });
    }
    jobs
}

/// Returns the number of the next repetitions that fit into `capacity_topics` topics; each of
/// `drivers` needs one per repetition.
pub(super) fn chunk(left: usize, drivers: u64, capacity_topics: u64) -> usize {
    let fit = capacity_topics / drivers.max(1);
    left.min(usize::try_from(fit).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::super::grid;
    use super::super::plan::{LibrariesOverrides, LibrariesPlan};
    use super::*;

    #[test]
    fn consume_topics_are_shared_except_in_legacy() {
        let plan = LibrariesPlan::built_in().unwrap();
        let cells = grid::cells(&plan).unwrap();
        let all = jobs(plan.profile, &cells);
        assert_eq!(all.len(), cells.len());
        for job in &all {
            let is_consume = cells[job.steps.start].operation() == DriverOperation::Consume;
            assert_eq!(job.is_shared, is_consume);
        }
        let legacy = LibrariesOverrides {
            profile: Some(Profile::Legacy),
            ..LibrariesOverrides::default()
        };
        let plan = plan.with(legacy, "test").unwrap();
        let cells = grid::cells(&plan).unwrap();
        let all = jobs(plan.profile, &cells);
        assert_eq!(all.len(), 30);
        assert!(all[..20].iter().all(|job| job.steps.len() == 2));
        assert!(all.iter().all(|job| !job.is_shared));
        assert!(all[20..].iter().all(|job| job.steps.len() == 1));
    }

    #[test]
    fn repetitions_are_limited_by_capacity() {
        assert_eq!(chunk(17, 3, 60), 17);
        assert_eq!(chunk(17, 3, 11), 3);
        assert_eq!(chunk(17, 3, 2), 0);
        assert_eq!(chunk(0, 3, 60), 0);
    }
}
