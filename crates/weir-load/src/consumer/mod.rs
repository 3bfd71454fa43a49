//! Plain Kafka consumers: thousands in one thread, standalone or in groups. Each consumer or group
//! reads a whole topic and checks it.

mod backlog;
mod latency_source;
mod lean_consumers;
mod librdkafka;
mod options;
mod origin;
mod scan;
mod topics;
mod values;

use std::cell::RefCell;
use std::rc::Rc;

use tokio::sync::watch;

pub use latency_source::{LatencySource, UnknownSource};
pub use options::{ConsumerClient, ConsumerOptions};
pub use scan::{ScanOptions, run as run_scan};
pub use values::ValueArgs;
use weir_kafka::lean::LeanCommand;
pub use weir_kafka::lean::LeanGroups;

use crate::clients::raise_descriptors;
use crate::delivery::DeliverySummary;
use crate::error::{LoadError, Result};
use crate::topic;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{Summary, WorkerRole};
use lean_consumers::{LeanConsumers, run_lean};
use topics::TopicConsumers;

/// Consumes until the coordinator or the schedule ends it, or all records of the ledger have
/// arrived. Returns the final summary.
///
/// # Errors
/// [`LoadError`] if the consumers did not start; `link` gets no event about it.
pub fn run(options: &ConsumerOptions, link: &CoordinatorChannel) -> Result<DeliverySummary> {
    link.events.hello(WorkerRole::Consume);
    let members = options.members();
    if members == 0 || options.clients % members != 0 {
        let reason = format!("--consumers {} must be a multiple of it", options.clients);
        return Err(LoadError::option("--group-members", &members, reason));
    }
    let receivers = (options.clients / members).saturating_mul(options.share.of);
    if !(1..=receivers).contains(&(options.topics as usize)) {
        let reason = "give at least 1, and at most as many as consumers or groups: each reads one";
        return Err(LoadError::option("--topics", &options.topics, reason));
    }
    let topics = topic::names(&options.topic, options.topics);
    let brokers = topic::ensure(&options.kafka, &topics, None)?;
    // A group member also has a connection to its group coordinator.
    let connections_each = brokers + usize::from(options.groups.is_some());
    check_clients(options.clients, connections_each)?;
    let summary = match options.client {
        ConsumerClient::Lean => {
            let consumers = Rc::new(RefCell::new(LeanConsumers::new(options)?));
            let commands = watch::Sender::new(LeanCommand::Read);
            let poll = || consumers.borrow_mut().poll(link);
            let runs = TopicConsumers::all(options, &topics, &consumers);
            let report = run_lean(runs, &commands, poll)?;
            consumers.borrow().summary(&report)
        }
        ConsumerClient::Librdkafka => {
            librdkafka::check(options)?;
            librdkafka::consume(options, LeanConsumers::new(options)?, link)?
        }
    };
    link.events.finish(Summary::Delivery(summary.clone()));
    Ok(summary)
}

/// Checks the number of consumers and raises the file descriptor limit for their connections.
fn check_clients(clients: usize, connections_each: usize) -> Result<()> {
    if clients == 0 {
        let reason = "at least one is needed";
        return Err(LoadError::option("--consumers", &0, reason));
    }
    let connections = (clients as u64).saturating_mul(connections_each as u64);
    let needed = connections.saturating_add(DESCRIPTORS_SPARE);
    let allowed = raise_descriptors(needed)
        .map_err(|reason| LoadError::System("raising the limit of file descriptors", reason))?;
    if needed > allowed {
        let reason = format!(
            "{needed} file descriptors are needed, the limit is {allowed}: raise the hard limit \
             (ulimit -Hn) or use fewer consumers"
        );
        return Err(LoadError::option("--consumers", &clients, reason));
    }
    Ok(())
}

/// Reserve for standard streams, poll, librdkafka's metadata request and log files.
const DESCRIPTORS_SPARE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_numbers_of_consumers_are_rejected() {
        let none = check_clients(0, 1).expect_err("too few").to_string();
        assert_eq!(none, "--consumers 0: at least one is needed");
        let many = check_clients(usize::MAX, 3)
            .expect_err("too many")
            .to_string();
        assert!(many.contains("file descriptors are needed"), "{many}");
        assert!(check_clients(1, 1).is_ok());
    }
}
