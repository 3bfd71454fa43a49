//! Plain Kafka consumers: thousands in one thread, alone or in groups; each of those reads the
//! whole topic and checks it.

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

/// Whose code reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConsumerClient {
    /// Ours: thousands in one thread.
    #[default]
    Lean,
    /// librdkafka, a client and a thread per consumer.
    Librdkafka,
}

/// How many consumers read what.
#[derive(Debug, Clone)]
pub struct ConsumerOptions {
    /// Comma-separated `host:port` list; plain TCP only.
    pub bootstrap_servers: String,
    /// Topic that every consumer reads, all partitions, from its end on.
    pub topic: String,
    /// Number of consumers.
    pub clients: usize,
    /// What they are made of.
    pub client: ConsumerClient,
    /// New connections per second.
    pub ramp_per_s: usize,
    /// How long a broker may hold a fetch without records.
    pub max_wait: Duration,
    /// Where the due instants of records are read.
    pub latency_from: LatencySource,
    /// Times only records whose timestamp carries the mark of probe records.
    pub marked_only: bool,
    /// Times records without a due time by their timestamp.
    pub record_timestamps: bool,
    /// Groups that the consumers join; `None`: each stands alone.
    pub groups: Option<LeanGroups>,
    /// How often the published programs' report is made; `None`: never.
    pub seed_report: Option<Duration>,
}

impl ConsumerOptions {
    /// `clients` consumers of one topic, 1,000 new connections a second, fetches held for 500 ms.
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

/// Consumes until the coordinator or the schedule ends it, or all of the ledger has come; returns
/// what was reported last.
///
/// # Errors
/// [`LoadError`] if the consumers could not begin; the link has not been told.
pub fn run(
    options: &ConsumerOptions,
    link: &CoordinatorChannel,
) -> Result<DeliverySummary, LoadError> {
    link.events.hello(WorkerRole::Consume);
    check_report(options)?;
    let brokers = topic::require(&options.bootstrap_servers, &options.topic)?;
    check_groups(options)?;
    // A member has a connection to its coordinator besides.
    let each = brokers + usize::from(options.groups.is_some());
    check_clients(options.clients, each)?;
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
    let crowd = Rc::new(RefCell::new(LeanConsumers::new(options)));
    let report = runtime.block_on(consume(options.config(), &crowd, link))?;
    let summary = crowd.borrow().summary(&report);
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
    crowd: &Rc<RefCell<LeanConsumers>>,
    link: &CoordinatorChannel,
) -> Result<LeanReport, LoadError> {
    let (stop, stopped) = watch::channel(false);
    let steer = async {
        let mut turns = interval_at(Instant::now() + TURN, TURN);
        turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            turns.tick().await;
            if crowd.borrow_mut().turn(link) == LoopControl::Stop {
                break;
            }
        }
        // Nobody listens only when the consumers have failed, which their result tells.
        let _ = stop.send(true);
    };
    let consumers = lean::run(config, Rc::clone(crowd), stopped);
    tokio::pin!(consumers);
    tokio::select! {
        // They end by themselves only with an error at the start.
        outcome = &mut consumers => Ok(outcome?),
        () = steer => Ok(consumers.await?),
    }
}

fn check_report(options: &ConsumerOptions) -> Result<(), LoadError> {
    match options.seed_report {
        Some(every) if every < REPORT_EVERY_MIN => Err(LoadError::Option {
            option: "--report-every",
            value: format!("{} ms", every.as_millis()),
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

/// Each consumer needs one connection to every broker that leads a partition.
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
                "{needed} file descriptors are needed, this process may have {allowed}: raise the \
                 hard limit (ulimit -Hn) or take fewer"
            ),
        });
    }
    Ok(())
}

const TURN: Duration = Duration::from_millis(20);
const REPORT_EVERY_MIN: Duration = Duration::from_secs(1);
/// Standard streams, poll, librdkafka's look at the topic, log files.
const DESCRIPTORS_SPARE: u64 = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_consumers_that_cannot_be_are_named() {
        let none = check_clients(0, 1).expect_err("nobody").to_string();
        assert_eq!(none, "--clients 0: at least one is needed");
        let many = check_clients(usize::MAX, 3)
            .expect_err("too many")
            .to_string();
        assert!(many.contains("file descriptors are needed"), "{many}");
        assert!(check_clients(1, 1).is_ok());
    }
}
