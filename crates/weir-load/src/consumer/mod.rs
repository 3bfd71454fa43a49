//! Plain Kafka consumers: thousands in one thread, standalone or in groups. Each consumer or group
//! reads the whole topic and checks it.

mod lean_consumers;
mod librdkafka;
mod options;
mod origin;
mod runtime;
mod scan;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use weir_kafka::lean::{self, LeanConfig, LeanReport};

pub use options::{ConsumerClient, ConsumerOptions};
pub use origin::{LatencySource, UnknownSource};
pub use scan::{ScanOptions, run as run_scan};
pub use weir_kafka::lean::LeanGroups;

use crate::clients::raise_descriptors;
use crate::delivery::DeliverySummary;
use crate::error::LoadError;
use crate::topic;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{Summary, WorkerEvent, WorkerRole};
use lean_consumers::{LeanConsumers, LoopControl};
use runtime::{POLL_INTERVAL, event_loop};

/// Consumes until the coordinator or the schedule ends it, or all records of the ledger have
/// arrived. Returns the final summary.
///
/// # Errors
/// [`LoadError`] if the consumers did not start; `link` gets no event about it.
pub fn run(
    options: &ConsumerOptions,
    link: &CoordinatorChannel,
) -> Result<DeliverySummary, LoadError> {
    link.events.hello(WorkerRole::Consume);
    check_report(options)?;
    let brokers = topic::require(&options.bootstrap_servers, &options.topic)?;
    check_groups(options)?;
    // A group member also has a connection to its group coordinator.
    let connections_each = brokers + usize::from(options.groups.is_some());
    check_clients(options.clients, connections_each)?;
    let summary = match options.client {
        ConsumerClient::Lean => consume_lean(options, link)?,
        ConsumerClient::Librdkafka => {
            librdkafka::check(options)?;
            librdkafka::consume(options, LeanConsumers::new(options), link)?
        }
    };
    link.events.send(&WorkerEvent::Final {
        summary: Summary::Delivery(summary.clone()),
    });
    Ok(summary)
}

fn consume_lean(
    options: &ConsumerOptions,
    link: &CoordinatorChannel,
) -> Result<DeliverySummary, LoadError> {
    let runtime = event_loop()?;
    let consumer_state = Rc::new(RefCell::new(LeanConsumers::new(options)));
    let report = runtime.block_on(consume(options.config(), &consumer_state, link))?;
    let summary = consumer_state.borrow().summary(&report);
    Ok(summary)
}

async fn consume(
    config: LeanConfig,
    consumer_state: &Rc<RefCell<LeanConsumers>>,
    link: &CoordinatorChannel,
) -> Result<LeanReport, LoadError> {
    let (stop, stopped) = watch::channel(false);
    let control = async {
        let mut ticks = interval_at(Instant::now() + POLL_INTERVAL, POLL_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if consumer_state.borrow_mut().poll(link) == LoopControl::Stop {
                break;
            }
        }
        // The receiver is closed only if the consumers failed; their result has the error.
        let _ = stop.send(true);
    };
    let consumers = lean::run(config, Rc::clone(consumer_state), stopped);
    tokio::pin!(consumers);
    tokio::select! {
        // The consumers end on their own only with an error at the start.
        outcome = &mut consumers => Ok(outcome?),
        () = control => Ok(consumers.await?),
    }
}

fn check_report(options: &ConsumerOptions) -> Result<(), LoadError> {
    match options.published_report {
        Some(interval) if interval < REPORT_INTERVAL_MIN => Err(LoadError::Option {
            option: "--report-interval",
            value: format!("{} ms", interval.as_millis()),
            reason: "give at least 1s".to_owned(),
        }),
        _ => Ok(()),
    }
}

fn check_groups(options: &ConsumerOptions) -> Result<(), LoadError> {
    let members = options.groups.as_ref().map_or(1, |groups| groups.members);
    if members > 0 && options.clients % members == 0 {
        return Ok(());
    }
    Err(LoadError::Option {
        option: "--group-members",
        value: members.to_string(),
        reason: format!("--consumers {} must be a multiple of it", options.clients),
    })
}

/// Checks the number of consumers and raises the file descriptor limit for their connections.
fn check_clients(clients: usize, connections_each: usize) -> Result<(), LoadError> {
    if clients == 0 {
        return Err(LoadError::Option {
            option: "--consumers",
            value: "0".to_owned(),
            reason: "at least one is needed".to_owned(),
        });
    }
    let connections = (clients as u64).saturating_mul(connections_each as u64);
    let needed = connections.saturating_add(DESCRIPTORS_SPARE);
    let allowed = raise_descriptors(needed).map_err(|reason| LoadError::System {
        what: "raising the limit of file descriptors",
        reason,
    })?;
    if needed > allowed {
        return Err(LoadError::Option {
            option: "--consumers",
            value: clients.to_string(),
            reason: format!(
                "{needed} file descriptors are needed, the limit is {allowed}: raise the hard \
                     limit (ulimit -Hn) or use fewer consumers"
            ),
        });
    }
    Ok(())
}

const REPORT_INTERVAL_MIN: Duration = Duration::from_secs(1);
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
