//! What runs together: a cell, or in the legacy profile a burst that is produced and then consumed.

use super::grid::{DriverOperation, LibraryCellSpec};
use super::profile::Profile;

/// Cells whose repetitions share topics, by their place in the run's list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TopicJob {
    pub(super) steps: Vec<usize>,
    pub(super) topics: Topics,
}

/// Which topics a job has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topics {
    /// One for each library and repetition.
    Own,
    /// One that all read in all repetitions.
    Shared,
}

/// All jobs, in order.
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
            && cell.work() == DriverOperation::Produce
            && next.is_some_and(|next| {
                next.work() == DriverOperation::Consume && size(next) == size(cell)
            });
        let topics = match cell.work() {
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

/// The next repetitions that run together, with the topics there is room for: each of `drivers` has one in each.
pub(super) fn chunk(left: &[u32], drivers: u64, room_topics: u64) -> &[u32] {
    let fit = room_topics / drivers.max(1);
    let count = left.len().min(usize::try_from(fit).unwrap_or(usize::MAX));
    &left[..count]
}

#[cfg(test)]
mod tests {
    use super::super::grid;
    use super::super::plan::{LibrariesOverrides, LibrariesPlan};
    use super::*;

    #[test]
    fn what_is_consumed_is_shared_but_in_the_legacy_profile() {
        let plan = LibrariesPlan::built_in().unwrap();
        let cells = grid::cells(&plan).unwrap();
        let all = jobs(plan.profile, &cells);
        assert_eq!(all.len(), cells.len());
        for job in &all {
            let is_consume = cells[job.steps[0]].work() == DriverOperation::Consume;
            assert_eq!(job.topics == Topics::Shared, is_consume);
        }
        let legacy = LibrariesOverrides {
            profile: Some(Profile::Legacy),
            ..LibrariesOverrides::default()
        };
        let plan = plan.with(&legacy, "test").unwrap();
        let cells = grid::cells(&plan).unwrap();
        let all = jobs(plan.profile, &cells);
        assert_eq!(all.len(), 25);
        assert!(all[..20].iter().all(|job| job.steps.len() == 2));
        assert!(all.iter().all(|job| job.topics == Topics::Own));
        assert!(all[20..].iter().all(|job| job.steps.len() == 1));
    }

    #[test]
    fn repetitions_are_cut_to_what_fits() {
        let left: Vec<u32> = (3..20).collect();
        assert_eq!(chunk(&left, 3, 60).len(), 17);
        assert_eq!(chunk(&left, 3, 11), [3, 4, 5]);
        assert!(chunk(&left, 3, 2).is_empty());
        assert!(chunk(&[], 3, 60).is_empty());
    }
}
