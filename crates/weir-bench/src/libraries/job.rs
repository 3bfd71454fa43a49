//! Jobs: cells that run together. A job is one cell, or in the legacy profile a produce cell and
//! its consume cell.

use super::grid::LibraryCellSpec;
use super::operation::DriverOperation;
use super::profile::Profile;

/// Cells whose repetitions share topics, by their index in the run's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicJob {
    pub(super) steps: Vec<usize>,
    pub(super) topics: Topics,
}

/// Topics of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topics {
    /// One topic per driver and repetition.
    Own,
    /// One topic for all drivers and repetitions.
    Shared,
}

/// Returns all jobs in order.
pub(super) fn jobs(profile: Profile, cells: &[LibraryCellSpec]) -> Vec<TopicJob> {
    let mut jobs: Vec<TopicJob> = Vec::new();
    let mut at = 0;
    while at < cells.len() {
        let cell = &cells[at];
        let is_legacy = profile == Profile::Legacy;
        let size =
            |cell: &LibraryCellSpec| (cell.value_bytes, cell.records, cell.skipped.is_some());
        let next = cells.get(at + 1);
        let with_next = is_legacy
            && cell.operation() == DriverOperation::Produce
            && next.is_some_and(|next| {
                next.operation() == DriverOperation::Consume && size(next) == size(cell)
            });
        let topics = match cell.operation() {
            DriverOperation::Consume if !is_legacy => Topics::Shared,
            _ => Topics::Own,
        };
        let steps = if with_next {
            vec![at, at + 1]
        } else {
            vec![at]
        };
        at += steps.len();
        jobs.push(TopicJob { steps, topics });
    }
    jobs
}

/// Returns the next repetitions that fit into `capacity_topics` topics; each of `drivers` needs one
/// per repetition.
pub(super) fn chunk(left: &[u32], drivers: u64, capacity_topics: u64) -> &[u32] {
    let fit = capacity_topics / drivers.max(1);
    let count = left.len().min(usize::try_from(fit).unwrap_or(usize::MAX));
    &left[..count]
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
            let is_consume = cells[job.steps[0]].operation() == DriverOperation::Consume;
            assert_eq!(job.topics == Topics::Shared, is_consume);
        }
        let legacy = LibrariesOverrides {
            profile: Some(Profile::Legacy),
            ..LibrariesOverrides::default()
        };
        let plan = plan.with(legacy, "test").unwrap();
        let cells = grid::cells(&plan).unwrap();
        let all = jobs(plan.profile, &cells);
        assert_eq!(all.len(), 25);
        assert!(all[..20].iter().all(|job| job.steps.len() == 2));
        assert!(all.iter().all(|job| job.topics == Topics::Own));
        assert!(all[20..].iter().all(|job| job.steps.len() == 1));
    }

    #[test]
    fn repetitions_are_limited_by_capacity() {
        let left: Vec<u32> = (3..20).collect();
        assert_eq!(chunk(&left, 3, 60).len(), 17);
        assert_eq!(chunk(&left, 3, 11), [3, 4, 5]);
        assert!(chunk(&left, 3, 2).is_empty());
        assert!(chunk(&[], 3, 60).is_empty());
    }
}
