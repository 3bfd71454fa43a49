//! Shape of a load on the brokers: topics, groups of several consumers, a backlog.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;

use super::{Architecture, Plan, PlanError, Rules};
use crate::experiment::plan_file::duration;
use weir_load::clients::KEY_PLACEHOLDER;

/// The `topics` table of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TopicsPlan {
    /// Number of topics. Each producer writes to one, each consumer or group reads one.
    pub(crate) count: u32,
    /// Replicas of each partition. Default 1.
    pub(crate) replication_factor: u32,
    /// Configuration of the topics, with Kafka's names.
    pub(crate) config: BTreeMap<String, String>,
}

impl Default for TopicsPlan {
    fn default() -> Self {
        Self {
            count: 1,
            replication_factor: 1,
            config: BTreeMap::new(),
        }
    }
}

/// The `consumers` table of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ConsumersPlan {
    /// Consumers of each group; the architecture `groups` divides the levels into such groups.
    pub(crate) group_members: u64,
    /// Time for which the consumers read nothing, from the start of the measured window. They then
    /// drain the backlog while the load continues.
    #[serde(deserialize_with = "duration")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(crate) backlog: Duration,
}

impl Default for ConsumersPlan {
    fn default() -> Self {
        Self {
            group_members: 1,
            backlog: Duration::ZERO,
        }
    }
}

impl Plan {
    /// Returns the average number of standalone consumers or groups that receive a record.
    pub(crate) fn receivers_per_record(&self, architecture: Architecture, clients: u64) -> f64 {
        let members = match architecture {
            Architecture::Groups => self.consumers.group_members,
            _ => 1,
        };
        clients as f64 / members as f64 / f64::from(self.topics.count)
    }

    /// Requires that topics, groups and backlog suit the rest of the plan.
    pub(super) fn require_shape(&self, rules: &Rules<'_>) -> Result<(), PlanError> {
        let (topics, consumers, workload) = (&self.topics, &self.consumers, &self.workload);
        rules.at_least_one("topics.count", topics.count)?;
        rules.at_least_one("topics.replication_factor", topics.replication_factor)?;
        let has_members = consumers.group_members > 0;
        rules.hold(has_members, "consumers.group_members", 0, "use at least 1")?;
        let count = u64::from(topics.count);
        let is_plain = count == 1 && consumers.group_members == 1 && consumers.backlog.is_zero();
        let plain = [Architecture::Groups, Architecture::Standalone];
        let served = self.architectures.iter().find(|it| !plain.contains(it));
        let served = served.map_or("", |architecture| architecture.name());
        let remedy = "plans with several topics, groups of several consumers or a backlog measure \
                      groups and standalone only";
        rules.hold(
            is_plain || served.is_empty(),
            "architectures",
            served,
            remedy,
        )?;
        let is_keyed = self
            .clients
            .scenario
            .corrected()
            .items
            .contains(KEY_PLACEHOLDER);
        let scenario = self.clients.scenario.name();
        let remedy = "such a plan has no clients of single keys: use scenario 1";
        rules.hold(is_plain || !is_keyed, "clients.scenario", scenario, remedy)?;
        let fits = count == 1 || (self.topic.is_none() && workload.marked_per_s == 0.0);
        let remedy = "several topics need new topics, and producers of timed records only";
        rules.hold(fits, "topics.count", count, remedy)?;
        let fits = topics.count <= workload.producers;
        let remedy = "give at least as many workload.producers: each writes to one topic";
        rules.hold(fits, "topics.count", count, remedy)?;
        let whole = count.saturating_mul(consumers.group_members);
        let odd = self.levels.iter().find(|&&level| level % whole != 0);
        let remedy = "use multiples of topics.count times consumers.group_members";
        rules.hold(odd.is_none(), "levels", odd.copied().unwrap_or(0), remedy)?;
        let is_short = consumers.backlog < self.hold;
        let remedy = "make it shorter than `hold`, in which the backlog has to be drained";
        let backlog = format!("{:?}", consumers.backlog);
        rules.hold(is_short, "consumers.backlog", backlog, remedy)
    }
}
