//! Command lines of the worker processes.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use super::child::ProcessRole;
use crate::experiment::Connection;
use crate::plan::{Architecture, Plan};
use weir_engine::gateways::ExternalGateway;
use weir_load::clients::Mode;
use weir_load::clients::scenario::KeyPool;

#[derive(Debug, Clone, Copy)]
pub(super) struct Workers<'a> {
    pub(super) plan: &'a Plan,
    pub(super) connection: Connection<'a>,
    pub(super) topic: &'a str,
    pub(super) clients: u64,
}

impl Workers<'_> {
    /// Returns the arguments of the producer of all records, or of the background records.
    pub(super) fn produce(&self) -> Vec<String> {
        let workload = &self.plan.workload;
        let rate_per_s = workload.rate_per_s - workload.marked_per_s;
        let args = self.produce_at(rate_per_s, workload.seed);
        args.with("--producers", workload.producers).0
    }

    /// Returns the arguments of the producer of timed records when there is background load.
    pub(super) fn produce_marked(&self) -> Vec<String> {
        let workload = &self.plan.workload;
        self.produce_at(workload.marked_per_s, workload.seed.wrapping_add(1))
            .with("--producers", 1)
            .with("--first-producer", workload.producers)
            .flag("--mark")
            .0
    }

    /// Returns the arguments common to both producers, with the text stamp that gateway clients
    /// read.
    fn produce_at(&self, rate_per_s: f64, seed: u64) -> WorkerArgs {
        let workload = &self.plan.workload;
        let transactions = workload.transaction_duration;
        let mut args = self.topic_args("produce");
        if transactions.is_none() {
            // The run has its own healthy broker, and the thread that polls without pause would
            // take a core from the system under test.
            args = args.flag("--no-idempotence");
        }
        args.flag("--text-stamp")
            .with("--topics", self.plan.topics.count)
            .maybe("--transaction-duration", transactions.map(milliseconds))
            .with("--kind", workload.kind)
            .with("--rate", rate_per_s)
            .with("--keys", workload.keys)
            .with("--seed", seed)
            .with("--key-distribution", workload.distribution)
            .with("--entropy", workload.entropy)
            .with("--members", workload.members)
            .with("--member-characters", workload.member_characters)
            .with("--change-ratio", workload.change_ratio)
            .with("--compression", &workload.compression)
            .maybe("--size", workload.size())
            .maybe("--schema", workload.schema.as_ref())
            .maybe("--message", workload.message.as_ref())
            .maybe("--time-field", workload.time_field.as_ref())
            .maybe("--stamp-field", workload.stamp_field.as_ref())
            .maybe("--registry", workload.registry.as_ref())
            .maybe("--registry-config", workload.registry_config.as_ref())
            .maybe("--schema-id", workload.schema_id)
            .maybe("--key", self.plan.clients.expected_key())
            .maybe("--replay", workload.replay.as_ref())
            .maybe("--replay-topic", workload.replay_topic.as_ref())
            .each("--header", self.plan.headers())
    }

    /// Returns the arguments of plain consumers of the whole topic, without a group or each in its
    /// own group.
    pub(super) fn consume(&self, architecture: Architecture) -> Vec<String> {
        let consumers = &self.plan.consumers;
        let members = (architecture == Architecture::Groups).then_some(consumers.group_members);
        let backlog = Some(consumers.backlog).filter(|backlog| !backlog.is_zero());
        let transactions = self.plan.workload.transaction_duration;
        let committed = transactions.map(|_| "isolation.level=read_committed");
        self.topic_args("consume")
            .with("--architecture", architecture.name())
            .with("--consumers", self.clients)
            .with("--ramp", self.ramp())
            .with("--topics", self.plan.topics.count)
            .maybe("--group-members", members)
            .maybe("--backlog", backlog.map(milliseconds))
            .maybe("--kafka-property", committed)
            .0
    }

    pub(super) fn floor(&self, listen: IpAddr) -> Vec<String> {
        let clients = &self.plan.clients;
        self.topic_args("floor")
            .with("--listen", SocketAddr::new(listen, 0))
            .with("--fields", clients.fields.join(","))
            .with("--diffs", clients.scenario.diffs().name())
            .0
    }

    /// Returns the arguments of the clients of a server. An external gateway may need others than
    /// the plan's own.
    pub(super) fn clients(
        &self,
        architecture: Architecture,
        server: &str,
        external: Option<&ExternalGateway>,
    ) -> Vec<String> {
        let clients = &self.plan.clients;
        let (pool, is_extended) = clients.pool();
        let pool = match pool {
            KeyPool::Fruits => "fruits",
            KeyPool::FirstNames => "first-names",
        };
        let mode = (clients.mode != Mode::Raw).then(|| clients.mode.as_str());
        let timed = (self.plan.workload.marked_per_s > 0.0).then_some("marked");
        let mut args = WorkerArgs::new("clients")
            .with("--server", server)
            .with("--clients", self.clients)
            .with("--ramp", self.ramp())
            .with("--seed", self.plan.workload.seed)
            .with("--scenario", clients.scenario.name())
            .with("--key-names", pool)
            .maybe("--key", clients.expected_key())
            .maybe("--mode", mode)
            .maybe("--timed", timed);
        if is_extended {
            args = args.flag("--extended-key");
        }
        if architecture == Architecture::Floor {
            args = args.flag("--floor");
        }
        if external.is_none_or(|gateway| gateway.fields.is_empty()) {
            args = args.with("--fields", clients.fields.join(","));
        }
        args.0
            .extend(external.into_iter().flat_map(ExternalGateway::client_args));
        args.0
    }

    /// Returns the ramp in whole clients per second.
    fn ramp(&self) -> u64 {
        self.plan.ramp_per_s.ceil() as u64
    }

    fn topic_args(&self, command: &str) -> WorkerArgs {
        WorkerArgs::topic(command, self.connection, self.topic)
    }
}

fn milliseconds(duration: Duration) -> String {
    format!("{}ms", duration.as_millis())
}

#[derive(Debug)]
pub(super) struct WorkerArgs(pub(super) Vec<String>);

impl WorkerArgs {
    /// Returns the arguments of a command of `weir load`.
    fn new(command: &str) -> Self {
        Self(["load", command, "--worker"].map(str::to_owned).into())
    }

    /// Returns the arguments of a command that uses a topic.
    pub(super) fn topic(command: &str, connection: Connection<'_>, topic: &str) -> Self {
        let args = Self::new(command);
        let file = connection.file.map(Path::display);
        args.with("--bootstrap", connection.bootstrap)
            .maybe("--kafka-config", file)
            .with("--topic", topic)
    }

    pub(super) fn flag(mut self, name: &str) -> Self {
        self.0.push(name.to_owned());
        self
    }

    pub(super) fn with(mut self, name: &str, value: impl ToString) -> Self {
        self.0.extend([name.to_owned(), value.to_string()]);
        self
    }

    fn each<T: ToString>(self, name: &str, values: impl Iterator<Item = T>) -> Self {
        values.fold(self, |args, value| args.with(name, value))
    }

    pub(super) fn maybe(self, name: &str, value: Option<impl ToString>) -> Self {
        value
            .into_iter()
            .fold(self, |args, value| args.with(name, value))
    }
}

/// Returns the role that receives updates in an architecture.
pub(super) fn receiving_role(architecture: Architecture) -> ProcessRole {
    match architecture {
        Architecture::Groups | Architecture::Standalone => ProcessRole::Consume,
        Architecture::Gateway | Architecture::Floor => ProcessRole::Clients,
    }
}
