//! Plain Kafka consumers: thousands in one thread, standalone or in groups. Each consumer or group
//! reads the whole topic and checks it.

mod lean_consumers;
mod librdkafka;
mod origin;
mod scan;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use weir_kafka::lean::{self, LeanConfig, LeanReport};

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

/// Client library of the consumers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConsumerClient {
    /// Weir's lean consumers: thousands in one thread.
    #[default]
    Lean,
    /// librdkafka, with a client and a thread per consumer.
    Librdkafka,
}

/// Options of the consumers of a run.
#[derive(Debug, Clone)]
pub struct ConsumerOptions {
    /// Comma-separated `host:port` list; plain TCP only.
    pub bootstrap_servers: String,
    /// Topic. Every consumer or group reads all its partitions from their end.
    pub topic: String,
    /// Number of consumers.
    pub clients: usize,
    /// Client library.
    pub client: ConsumerClient,
    /// New connections per second.
    pub ramp_per_s: usize,
    /// Maximum time for which a broker delays a fetch response without records.
    pub max_wait: Duration,
    /// Source of the records' due times.
    pub latency_from: LatencySource,
    /// Record latencies only of records with the mark of probe records.
    pub marked_only: bool,
    /// Time records without a due time by their timestamp.
    pub record_timestamps: bool,
    /// Groups that the consumers join; `None`: all are standalone.
    pub groups: Option<LeanGroups>,
    /// Interval of the report in the form of the published programs; `None`: no report.
    pub seed_report: Option<Duration>,
}

impl ConsumerOptions {
    /// Returns the options of `clients` consumers of one topic with 1,000 new connections per
    /// second and fetch delays of up to 500 ms.
    pub fn new(bootstrap_servers: &str, topic: &str, clients: usize) -> Self {
        Self {
            bootstrap_servers: bootstrap_servers.to_owned(),
            topic: topic.to_owned(),
            clients,
            client: ConsumerClient::Lean,
            ramp_per_s: 1000,
            max_wait: Duration::from_millis(500),
            latency_from: LatencySource::Header,
            marked_only: false,
            record_timestamps: false,
            groups: None,
            seed_report: None,
        }
    }

    fn config(&self) -> LeanConfig {
        LeanConfig {
            bootstrap_servers: self.bootstrap_servers.clone(),
            topic: self.topic.clone(),
            consumers: self.clients,
            max_wait_ms: i32::try_from(self.max_wait.as_millis()).unwrap_or(i32::MAX),
            connect_rate_per_s: self.ramp_per_s,
            client_id: "weir-load-consume".to_owned(),
            groups: self.groups.clone(),
            ..LeanConfig::default()
        }
    }
}

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

fn event_loop() -> Result<tokio::runtime::Runtime, LoadError> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|reason| LoadError::System {
            what: "starting the event loop of the consumers",
            reason,
        })
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
    match options.seed_report {
        Some(interval) if interval < REPORT_INTERVAL_MIN => Err(LoadError::Option {
            option: "--report-every",
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
        reason: format!("--clients {} must be a multiple of it", options.clients),
    })
}

/// Checks the number of consumers and raises the file descriptor limit for their connections.
fn check_clients(clients: usize, connections_each: usize) -> Result<(), LoadError> {
    if clients == 0 {
        return Err(LoadError::Option {
            option: "--clients",
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
            option: "--clients",
            value: clients.to_string(),
            reason: format!(
                "{needed} file descriptors are needed, the limit is {allowed}: raise the hard \
                     limit (ulimit -Hn) or use fewer consumers"
            ),
        });
    }
    Ok(())
}

const POLL_INTERVAL: Duration = Duration::from_millis(20);
const REPORT_INTERVAL_MIN: Duration = Duration::from_secs(1);
/// Reserve for standard streams, poll, librdkafka's metadata request and log files.
const DESCRIPTORS_SPARE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_numbers_of_consumers_are_rejected() {
        let none = check_clients(0, 1).expect_err("too few").to_string();
        assert_eq!(none, "--clients 0: at least one is needed");
        let many = check_clients(usize::MAX, 3)
            .expect_err("too many")
            .to_string();
        assert!(many.contains("file descriptors are needed"), "{many}");
        assert!(check_clients(1, 1).is_ok());
    }
}
