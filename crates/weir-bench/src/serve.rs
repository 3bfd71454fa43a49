//! A plan's broker, gateway and producers, up until they are no longer wanted: something live to connect to.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use weir_kafka::Admin;

use super::child::{ChildEvent, MESSAGES_QUEUED_MAX, ProcessRole, RoleProcess};
use super::gateway::GatewayFiles;
use super::observer::Observer;
use super::workers::Workers;
use super::{ADMIN_TIMEOUT, BenchError, BenchOptions, RunBroker};
use crate::plan::Plan;
use weir_load::clock::{Clock, nanos};
use weir_load::worker::protocol::{Schedule, WorkerCommand, WorkerEvent};

/// What there is to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveEndpoints {
    /// Brokers, `host:port`.
    pub bootstrap: String,
    /// The topic the producers write.
    pub topic: String,
    /// Where the gateway's clients connect.
    pub listen: SocketAddr,
    /// Where it tells metrics and health.
    pub admin: SocketAddr,
    /// Adapter set of a session.
    pub adapter_set: String,
    /// Data adapter of a subscription.
    pub data_adapter: String,
    /// One item of many.
    pub item: String,
    /// Fields that are mapped.
    pub fields: Vec<String>,
}

/// Starts everything below `options.out`, the gateway at `listen` with its admin page at `admin`,
/// tells `up` where it is, and stays until `stop` is true.
///
/// # Errors
/// [`BenchError`] if a part could not be started or ended by itself; nothing is left running.
pub fn stay(
    plan: &Plan,
    options: &BenchOptions,
    [listen, admin]: [SocketAddr; 2],
    observer: &mut dyn Observer,
    stop: &AtomicBool,
    up: impl FnOnce(&LiveEndpoints),
) -> Result<(), BenchError> {
    let dir = options.out.join("live");
    fs::create_dir_all(&dir).map_err(|error| BenchError::file(&dir, error))?;
    let mut broker = RunBroker::start(options, observer, stop)?;
    let result = serve(plan, options, (&broker, [listen, admin], &dir), stop, up);
    let down = broker.down();
    result.and(down)
}

fn serve(
    plan: &Plan,
    options: &BenchOptions,
    (broker, addresses, dir): (&RunBroker, [SocketAddr; 2], &Path),
    stop: &AtomicBool,
    up: impl FnOnce(&LiveEndpoints),
) -> Result<(), BenchError> {
    let kafka = Admin::connect(&broker.bootstrap, ADMIN_TIMEOUT)?;
    let partitions = i32::try_from(plan.workload.partitions).unwrap_or(i32::MAX);
    kafka.create_topic(TOPIC, partitions, 1, &[])?;
    let files = GatewayFiles::write(dir, (plan, None), &broker.bootstrap, TOPIC)?;
    let [listen, admin] = addresses;
    let args = files.args(listen, admin);
    let mut gateway = RoleProcess::plain(&options.exe, &args, ProcessRole::Gateway, dir)?;
    let deadline = Instant::now() + READY_WITHIN;
    let ready = loop {
        if let Some(ready) = files.ready() {
            break ready;
        }
        if gateway.ended().is_some() || Instant::now() > deadline {
            return Err(ended(&gateway));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    };
    let workers = Workers {
        plan,
        bootstrap: &broker.bootstrap,
        topic: TOPIC,
        clients: 0,
    };
    let (messages, receiver) = mpsc::sync_channel(MESSAGES_QUEUED_MAX);
    let args = workers.produce();
    let mut producer =
        RoleProcess::worker(&options.exe, &args, ProcessRole::Produce, dir, messages)?;
    let start_unix_ns = Clock::start().now_unix_ns() + nanos(LOOK);
    producer.send(&WorkerCommand::Start(Schedule {
        start_unix_ns,
        measure_from_unix_ns: start_unix_ns,
        // Nobody asks for an account of it.
        measure_until_unix_ns: start_unix_ns,
        stop_unix_ns: u64::MAX,
    }));
    let published = plan.clients.scenario.corrected();
    up(&LiveEndpoints {
        bootstrap: broker.bootstrap.clone(),
        topic: TOPIC.to_owned(),
        listen: ready.listen,
        admin: ready.admin,
        adapter_set: published.adapter_set,
        data_adapter: published.data_adapter,
        item: plan.clients.item(0).1,
        fields: plan.clients.fields.clone(),
    });
    while !stop.load(Ordering::Relaxed) {
        if gateway.ended().is_some() {
            return Err(ended(&gateway));
        }
        if let Some(reason) = has_failed(&receiver) {
            return Err(BenchError::Ended {
                part: producer.part.name(),
                reason,
            });
        }
        std::thread::sleep(LOOK);
    }
    producer.end(END_GRACE);
    gateway.end(END_GRACE);
    Ok(())
}

/// Why the producers go on no longer, if so; their progress is of no interest.
fn has_failed(receiver: &Receiver<ChildEvent>) -> Option<String> {
    receiver.try_iter().find_map(|message| match message {
        ChildEvent::Event(_, WorkerEvent::Error { message }) => Some(message),
        ChildEvent::Closed(_) => Some("its output ended".to_owned()),
        ChildEvent::Event(..) | ChildEvent::Garbled(..) => None,
    })
}

fn ended(process: &RoleProcess) -> BenchError {
    BenchError::Ended {
        part: process.part.name(),
        reason: process.last_words(),
    }
}

/// The topic of the published load test.
const TOPIC: &str = "LTest";
const LOOK: Duration = Duration::from_millis(50);
const READY_WITHIN: Duration = Duration::from_secs(60);
const END_GRACE: Duration = Duration::from_secs(10);
