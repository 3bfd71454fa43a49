//! Runs a plan's broker, gateway and producers until interrupted, as a live system for clients.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use weir_lab::LabOptions;

use super::child::{ChildEvent, MESSAGES_QUEUED_MAX, ProcessRole, RoleProcess};
use super::gateway::GatewayFiles;
use super::observer::Observer;
use super::processes::{POLL_INTERVAL, READY_TIMEOUT};
use super::workers::Workers;
use super::{BenchError, BenchOptions};
use crate::experiment::RunBroker;
use crate::plan::Plan;
use weir_load::clock::{Clock, nanos};
use weir_load::worker::protocol::{Schedule, WorkerCommand, WorkerEvent};

/// Addresses and names that clients need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveEndpoints {
    /// Bootstrap servers, `host:port`.
    pub bootstrap: String,
    /// Topic that the producers write to.
    pub topic: String,
    /// Address for the gateway's clients.
    pub listen: SocketAddr,
    /// Address of the gateway's admin server: metrics and health.
    pub admin: SocketAddr,
    /// Adapter set of the sessions.
    pub adapter_set: String,
    /// Data adapter of the subscriptions.
    pub data_adapter: String,
    /// Example of an item.
    pub item: String,
    /// Mapped fields.
    pub fields: Vec<String>,
}

/// Starts broker, gateway and producers below `options.out`, the gateway at `listen` with its admin
/// server at `admin`. Calls `up` with the endpoints and runs until `stop` is true.
///
/// # Errors
/// [`BenchError`] if a process cannot be started or exits; no process keeps running.
pub fn serve_until(
    plan: &Plan,
    options: &BenchOptions,
    [listen, admin]: [SocketAddr; 2],
    observer: &mut dyn Observer,
    stop: &AtomicBool,
    up: impl FnOnce(&LiveEndpoints),
) -> Result<(), BenchError> {
    let dir = options.out.join("live");
    fs::create_dir_all(&dir).map_err(|error| BenchError::file(&dir, error))?;
    let broker = RunBroker::start(options, &LabOptions::default(), observer, stop)?;
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
    broker.create_topic(TOPIC, (plan.workload.partitions, 1), &[])?;
    let files = GatewayFiles::write(dir, (plan, None), broker.connection(), TOPIC)?;
    let [listen, admin] = addresses;
    let args = files.args(listen, admin);
    let mut gateway = RoleProcess::plain(&options.exe, &args, ProcessRole::Gateway, dir)?;
    let deadline = Instant::now() + READY_TIMEOUT;
    let ready = loop {
        if let Some(ready) = files.ready() {
            break ready;
        }
        if gateway.exit_status().is_some() || Instant::now() > deadline {
            return Err(exited(&gateway));
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(());
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    let workers = Workers {
        plan,
        connection: broker.connection(),
        topic: TOPIC,
        clients: 0,
    };
    let (messages, receiver) = mpsc::sync_channel(MESSAGES_QUEUED_MAX);
    let (exe, args, role) = (&options.exe, workers.produce(), ProcessRole::Produce);
    let mut producer = RoleProcess::worker(exe, &args, role, dir, messages)?;
    let start_unix_ns = Clock::start().now_unix_ns() + nanos(POLL_INTERVAL);
    producer.send(&WorkerCommand::Start(Schedule {
        start_unix_ns,
        measure_from_unix_ns: start_unix_ns,
        // The measured window is empty: its result is not used.
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
        if gateway.exit_status().is_some() {
            return Err(exited(&gateway));
        }
        if let Some(reason) = producer_error(&receiver) {
            return Err(BenchError::Exited(producer.role.name(), reason));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
    producer.end(END_GRACE);
    gateway.end(END_GRACE);
    Ok(())
}

/// Returns the reason if the producers have stopped; ignores their progress.
fn producer_error(receiver: &Receiver<ChildEvent>) -> Option<String> {
    receiver.try_iter().find_map(|message| match message {
        ChildEvent::Event(_, WorkerEvent::Error { message, .. }) => Some(message),
        ChildEvent::Closed(_) => Some("it closed its output".to_owned()),
        ChildEvent::Event(..)
        | ChildEvent::Sample(..)
        | ChildEvent::ReadyFile(..)
        | ChildEvent::InvalidLine(..) => None,
    })
}

fn exited(process: &RoleProcess) -> BenchError {
    BenchError::Exited(process.role.name(), process.log_tail())
}

/// Name of the topic in the published load test.
const TOPIC: &str = "LTest";
const END_GRACE: Duration = Duration::from_secs(10);
