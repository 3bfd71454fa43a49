//! State and cells of a sweep.

use super::plan::SweepPlan;
use crate::BenchError;
use crate::experiment::RunContext;
use crate::experiment::turns::CellResult;

#[derive(Clone, Copy)]
pub(super) struct SweepContext<'a> {
    pub(super) run: RunContext<'a>,
    pub(super) plan: &'a SweepPlan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SweepCell {
    Produce { size: u64, target: u64 },
    Consume { fetch_size: u64 },
}

/// Program that measures a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measurer {
    Weir,
    /// Weir as the second variant of an A/A test.
    WeirAgain,
    Kafka,
}

impl SweepContext<'_> {
    /// Calls `measure` with the topic of a cell: the plan's, or a new one that is deleted
    /// afterwards, because topics of a sweep are large.
    pub(super) fn with_topic(
        &self,
        id: &str,
        measure: impl FnOnce(&str) -> CellResult,
    ) -> CellResult {
        if let Some(topic) = &self.plan.topic {
            return measure(topic);
        }
        let topic = self.new_topic(id, &[])?;
        let measured = measure(&topic);
        self.run.broker.delete_topic(&topic);
        measured
    }

    pub(super) fn new_topic(
        &self,
        id: &str,
        config: &[(&str, &str)],
    ) -> Result<String, BenchError> {
        let topic = self.run.topic_name(&self.plan.name, id);
        let size = (self.plan.workload.partitions, 1);
        self.run.broker.create_topic(&topic, size, config)?;
        Ok(topic)
    }
}
