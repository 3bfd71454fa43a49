//! Types shared by all cells of a comparison of proxies.

use weir_lab::KafkaTools;

use super::plan::OverheadPlan;
use super::servers::Server;
use crate::BenchError;
use crate::experiment::RunContext;
use crate::experiment::names::names;

#[derive(Clone, Copy)]
pub(super) struct OverheadContext<'a> {
    pub(super) run: RunContext<'a>,
    pub(super) plan: &'a OverheadPlan,
    pub(super) tools: Option<&'a KafkaTools>,
}

/// Client program and direction; also the architecture in results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientSide {
    Produce,
    Consume,
    KafkaProduce,
    KafkaConsume,
}

// In the order in which a repetition runs them.
names!(pub(super) ClientSide, "side": Produce = "produce", KafkaProduce = "kafka-produce",
    Consume = "consume", KafkaConsume = "kafka-consume");

/// Records that pass through a path; `rate` is `None` for the maximum rate.
#[derive(Clone, Copy)]
pub(super) struct OverheadJob<'a> {
    pub(super) context: OverheadContext<'a>,
    pub(super) server: &'a Server,
    pub(super) topic: &'a str,
    pub(super) records: u64,
    pub(super) rate: Option<u64>,
}

impl ClientSide {
    pub(super) fn produces(self) -> bool {
        matches!(self, Self::Produce | Self::KafkaProduce)
    }
}

impl OverheadContext<'_> {
    pub(super) fn new_topic(
        &self,
        id: &str,
        config: &[(&str, &str)],
    ) -> Result<String, BenchError> {
        let topic = self.run.topic_name(&self.plan.name, id);
        self.run.broker.create_topic(&topic, (1, 1), config)?;
        Ok(topic)
    }
}
