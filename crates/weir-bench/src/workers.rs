//! Command lines of the worker processes.

use super::child::ProcessRole;
use crate::plan::{Architecture, Plan};
use weir_load::clients::Mode;
use weir_load::clients::scenario::KeyPool;

/// Values that the arguments of a cell's workers depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Workers<'a> {
    pub(super) plan: &'a Plan,
    pub(super) bootstrap: &'a str,
    pub(super) topic: &'a str,
    pub(super) clients: u64,
}

impl Workers<'_> {
    /// Returns the arguments of the producer of all records, or of the background records.
    pub(super) fn produce(&self) -> Vec<String> {
        let workload = &self.plan.workload;
        let mut args = self.produce_at(workload.rate_per_s - workload.marked_per_s, workload.seed);
        push(&mut args, "--producers", workload.producers);
        args
    }

    /// Returns the arguments of the producer of timed records when there is background load.
    pub(super) fn produce_marked(&self) -> Vec<String> {
        let workload = &self.plan.workload;
        let mut args = self.produce_at(workload.marked_per_s, workload.seed.wrapping_add(1));
        push(&mut args, "--producers", 1);
        push(&mut args, "--first-producer", workload.producers);
        args.push("--mark".to_owned());
        args
    }

    /// Returns the arguments common to both producers, with the text stamp that gateway clients
    /// read.
    fn produce_at(&self, rate_per_s: f64, seed: u64) -> Vec<String> {
        let workload = &self.plan.workload;
        let mut args = self.topic_args("produce");
        // No idempotence: the run has its own healthy broker, and the thread that polls without
        // pause would take a core from the system under test.
        args.push("--no-idempotence".to_owned());
        args.push("--text-stamp".to_owned());
        push(&mut args, "--kind", workload.kind);
        push(&mut args, "--rate", rate_per_s);
        push(&mut args, "--size", workload.size_bytes);
        push(&mut args, "--keys", workload.keys);
        push(&mut args, "--seed", seed);
        push(&mut args, "--key-distribution", workload.distribution);
        push(&mut args, "--entropy", workload.entropy);
        push(&mut args, "--members", workload.members);
        push(&mut args, "--member-characters", workload.member_characters);
        push(&mut args, "--change-ratio", workload.change_ratio);
        push(&mut args, "--compression", &workload.compression);
        if let Some(key) = self.plan.clients.wanted_key() {
            push(&mut args, "--key", key);
        }
        for (option, source) in [
            ("--replay", &workload.replay),
            ("--replay-topic", &workload.replay_topic),
        ] {
            if let Some(source) = source {
                push(&mut args, option, source);
            }
        }
        args
    }

    /// Returns the arguments of plain consumers of the whole topic, without a group or each in its
    /// own group.
    pub(super) fn consume(&self, architecture: Architecture) -> Vec<String> {
        let mut args = self.topic_args("consume");
        push(&mut args, "--architecture", architecture.name());
        push(&mut args, "--clients", self.clients);
        push(&mut args, "--ramp", self.ramp());
        args
    }

    /// Returns the arguments of the baseline server.
    pub(super) fn floor(&self) -> Vec<String> {
        let mut args = self.topic_args("floor");
        push(&mut args, "--listen", "127.0.0.1:0");
        push(&mut args, "--fields", self.plan.clients.fields.join(","));
        push(
            &mut args,
            "--diffs",
            self.plan.clients.scenario.diffs().name(),
        );
        args
    }

    /// Returns the arguments of clients of the gateway or the baseline server at `server`.
    pub(super) fn clients(&self, architecture: Architecture, server: &str) -> Vec<String> {
        let clients = &self.plan.clients;
        let mut args: Vec<String> = ["load", "clients", "--worker"].map(str::to_owned).into();
        push(&mut args, "--server", server);
        push(&mut args, "--clients", self.clients);
        push(&mut args, "--ramp", self.ramp());
        push(&mut args, "--seed", self.plan.workload.seed);
        push(&mut args, "--scenario", clients.scenario.name());
        push(&mut args, "--fields", clients.fields.join(","));
        let (pool, extended) = clients.pool();
        let pool = match pool {
            KeyPool::Fruits => "fruits",
            KeyPool::FirstNames => "first-names",
        };
        push(&mut args, "--key-names", pool);
        if extended {
            args.push("--extended-key".to_owned());
        }
        if let Some(key) = clients.wanted_key() {
            push(&mut args, "--key", key);
        }
        if clients.mode != Mode::Raw {
            push(&mut args, "--mode", clients.mode.as_str());
        }
        if self.plan.workload.marked_per_s > 0.0 {
            push(&mut args, "--timed", "marked");
        }
        if architecture == Architecture::Floor {
            args.push("--floor".to_owned());
        }
        args
    }

    /// Returns the ramp in whole clients per second.
    fn ramp(&self) -> u64 {
        self.plan.ramp_per_s.ceil() as u64
    }

    fn topic_args(&self, command: &str) -> Vec<String> {
        let mut args: Vec<String> = ["load", command, "--worker"].map(str::to_owned).into();
        push(&mut args, "--bootstrap", self.bootstrap);
        push(&mut args, "--topic", self.topic);
        args
    }
}

/// Returns the role that receives updates in an architecture.
pub(super) fn receiving_role(architecture: Architecture) -> ProcessRole {
    match architecture {
        Architecture::Groups | Architecture::Standalone => ProcessRole::Consume,
        Architecture::Gateway | Architecture::Floor => ProcessRole::Clients,
    }
}

pub(super) fn push(args: &mut Vec<String>, name: &str, value: impl ToString) {
    args.push(name.to_owned());
    args.push(value.to_string());
}
