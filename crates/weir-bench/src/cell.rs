//! Runs one cell: starts the processes, applies the load, drains, settles and ends the processes.

mod load;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use procfs::process::{ProcState, Process};
use weir_kafka::Admin;
use weir_stats::run::{Cell, CellStatus};

use super::BenchError;
use super::child::{ChildEvent, MESSAGES_QUEUED_MAX, ProcessRole, RoleProcess};
use super::collect::Collected;
use super::figure_names::RATE;
use super::gateway::{GatewayFiles, GatewayReady};
use super::observer::Observer;
use super::probe::{ProbeProcess, Sdk};
use super::result::MeasuredWindow;
use super::usage::CellUsage;
use super::workers::{Workers, receiving_role};
use crate::plan::{Architecture, Plan};
use weir_load::clock::Clock;

/// State shared by all cells of a run.
#[derive(Clone)]
pub(super) struct CellContext<'a> {
    pub(super) plan: &'a Plan,
    /// Path of this program; every process is a command of it.
    pub(super) exe: PathBuf,
    /// Run directory.
    pub(super) dir: PathBuf,
    pub(super) bootstrap: String,
    /// Process ids of the broker; empty if it was not started for the run.
    pub(super) broker_pids: Vec<u32>,
    pub(super) admin: &'a Admin,
    /// SDK to probe gateway cells with, or the reason for its absence.
    pub(super) sdk: &'a Result<Sdk, String>,
    pub(super) stop: &'a AtomicBool,
    /// Set to false if the priority of a cell's producers could not be raised.
    pub(super) producers_preferred: &'a AtomicBool,
    pub(super) clock: Clock,
    pub(super) started_unix_ns: u64,
}

impl<'a> CellContext<'a> {
    /// Returns a point in time as seconds since the start of the run.
    pub(super) fn seconds_at(&self, unix_ns: u64) -> f64 {
        unix_ns.saturating_sub(self.started_unix_ns) as f64 / 1e9
    }

    /// Returns a copy for another plan.
    pub(super) fn with_plan(&self, plan: &'a Plan) -> Self {
        Self {
            plan,
            ..self.clone()
        }
    }

    /// Returns `true` if a broker that was started for the run has exited; always `false` for
    /// others.
    pub(super) fn broker_has_exited(&self) -> bool {
        self.broker_pids.iter().any(|pid| has_exited(*pid))
    }
}

/// Returns `true` if a process has exited, even if nothing has waited for it yet.
fn has_exited(pid: u32) -> bool {
    let process = i32::try_from(pid)
        .ok()
        .and_then(|pid| Process::new(pid).ok());
    let state = process.and_then(|process| process.stat().ok()?.state().ok());
    matches!(state, None | Some(ProcState::Zombie | ProcState::Dead))
}

/// Subject, load and repetition of a cell.
#[derive(Debug, Clone)]
pub(super) struct CellSpec {
    pub(super) architecture: Architecture,
    /// Gateway variant, in a plan with variants.
    pub(super) variant: Option<String>,
    pub(super) clients: u64,
    /// Repetition, from 1.
    pub(super) repetition: u64,
}

impl CellSpec {
    /// Returns a cell of `plan` without results. The plan's rate must be that of the cell.
    pub(super) fn empty_cell(&self, plan: &Plan) -> Cell {
        let rate = plan.workload.rate_per_s;
        let parameters = plan.is_grid().then(|| (RATE.to_owned(), rate));
        Cell {
            architecture: self.architecture.name().to_owned(),
            variant: self.variant.clone(),
            clients: self.clients,
            parameters: parameters.into_iter().collect(),
            repetition: self.repetition,
            warm_up_s: plan.warm_up.as_secs_f64(),
            hold_s: plan.hold.as_secs_f64(),
            offered_records_per_s: rate,
            ..Cell::default()
        }
    }
}

/// Reason for a cell without results.
enum CellAbort {
    /// The user stopped the run before the measured window began.
    Interrupted,
    /// A process failed.
    Failed(String),
}

impl From<BenchError> for CellAbort {
    fn from(error: BenchError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Runs one cell and always ends its processes.
pub(super) fn run(context: &CellContext<'_>, spec: CellSpec, observer: &mut dyn Observer) -> Cell {
    let mut cell = spec.empty_cell(context.plan);
    let (messages, receiver) = mpsc::sync_channel(MESSAGES_QUEUED_MAX);
    let started = RunningCell::start(context, spec, messages, receiver);
    let mut running = match started {
        Ok(running) => running,
        Err(error) => {
            cell.status = CellStatus::Invalid {
                reasons: vec![error.to_string()],
            };
            return cell;
        }
    };
    let outcome = running.measure(observer);
    running.collected.flush();
    match outcome {
        Ok(window) => running.result(cell, &window),
        Err(CellAbort::Interrupted) => {
            let reason = "interrupted before its measured window".to_owned();
            cell.status = CellStatus::Skipped { reason };
            cell
        }
        Err(CellAbort::Failed(reason)) => {
            let mut reasons = vec![reason];
            reasons.append(&mut running.collected.errors);
            cell.status = CellStatus::Invalid { reasons };
            cell
        }
    }
}

/// Cell that is being measured.
struct RunningCell<'a> {
    context: &'a CellContext<'a>,
    spec: CellSpec,
    topic: String,
    dir: PathBuf,
    hlog_name: String,
    messages: SyncSender<ChildEvent>,
    receiver: Receiver<ChildEvent>,
    collected: Collected,
    usage: CellUsage,
    processes: Vec<RoleProcess>,
    gateway: Option<GatewayReady>,
    probe: Option<ProbeProcess>,
    notes: Vec<String>,
}

impl<'a> RunningCell<'a> {
    fn start(
        context: &'a CellContext<'a>,
        spec: CellSpec,
        messages: SyncSender<ChildEvent>,
        receiver: Receiver<ChildEvent>,
    ) -> Result<Self, BenchError> {
        let id = spec.empty_cell(context.plan).id();
        let dir = context.dir.join(&id);
        std::fs::create_dir_all(&dir).map_err(|error| BenchError::file(&dir, error))?;
        let hlog_name = format!("{id}.hlog");
        let now_unix_ns = context.clock.now_unix_ns();
        let mut collected = Collected::new(&context.dir.join(&hlog_name), &id, now_unix_ns)?;
        let has_background = context.plan.workload.marked_per_s > 0.0;
        collected.background = has_background.then_some(ProcessRole::Produce);
        let mut usage = CellUsage::default();
        if !context.broker_pids.is_empty() {
            usage.watch(ProcessRole::Broker, &context.broker_pids);
            usage.ready(ProcessRole::Broker, now_unix_ns);
        }
        // The time makes topic names unique across runs on the same broker.
        let unique = || {
            format!(
                "weir-{}-{id}-{}",
                context.plan.name,
                now_unix_ns / 1_000_000
            )
        };
        Ok(Self {
            context,
            spec,
            topic: context.plan.topic.clone().unwrap_or_else(unique),
            dir,
            hlog_name,
            messages,
            receiver,
            collected,
            usage,
            processes: Vec::new(),
            gateway: None,
            probe: None,
            notes: Vec::new(),
        })
    }

    /// Runs the cell from the creation of its topic until all deliveries have settled.
    fn measure(&mut self, observer: &mut dyn Observer) -> Result<MeasuredWindow, CellAbort> {
        self.prepare_topic()?;
        let server = self.start_server(observer)?;
        self.start_receivers(server.as_deref(), observer)?;
        self.start_probe(server.as_deref(), observer);
        self.start_producers(observer)?;
        let mut window = self.schedule();
        self.load(&mut window, observer)?;
        self.settle(&window, observer)?;
        Ok(window)
    }

    /// Creates the topic, or checks that the topic named in the plan exists.
    fn prepare_topic(&self) -> Result<(), CellAbort> {
        let admin = self.context.admin;
        let workload = &self.context.plan.workload;
        if self.context.plan.topic.is_none() {
            let partitions = i32::try_from(workload.partitions).unwrap_or(i32::MAX);
            let config = [workload.timestamps.topic_config()];
            let created = admin.create_topic(&self.topic, partitions, 1, &config);
            return Ok(created.map_err(BenchError::from)?);
        }
        match admin.topic_exists(&self.topic).map_err(BenchError::from)? {
            true => Ok(()),
            false => Err(CellAbort::Failed(format!(
                "topic \"{}\" does not exist: create it or omit --topic",
                self.topic
            ))),
        }
    }

    fn start_producers(&mut self, observer: &mut dyn Observer) -> Result<(), CellAbort> {
        let produce = self.workers().produce();
        self.start_worker(ProcessRole::Produce, &produce)?;
        if self.context.plan.workload.marked_per_s > 0.0 {
            let marked = self.workers().produce_marked();
            self.start_worker(ProcessRole::ProduceMarked, &marked)?;
            self.wait_ready(ProcessRole::ProduceMarked, READY_TIMEOUT, observer)?;
        }
        self.wait_ready(ProcessRole::Produce, READY_TIMEOUT, observer)
    }

    /// Starts the server between broker and clients and returns its address, if the architecture
    /// has one.
    fn start_server(&mut self, observer: &mut dyn Observer) -> Result<Option<String>, CellAbort> {
        match self.spec.architecture {
            Architecture::Groups | Architecture::Standalone => Ok(None),
            Architecture::Floor => {
                let floor = self.workers().floor();
                self.start_worker(ProcessRole::Floor, &floor)?;
                self.wait_ready(ProcessRole::Floor, READY_TIMEOUT, observer)?;
                let port = self.collected.port;
                let port =
                    port.ok_or_else(|| CellAbort::Failed("floor reported no port".to_owned()))?;
                Ok(Some(format!("127.0.0.1:{port}")))
            }
            Architecture::Gateway => self.start_gateway(observer).map(Some),
        }
    }

    fn start_gateway(&mut self, observer: &mut dyn Observer) -> Result<String, CellAbort> {
        let files = GatewayFiles::write(
            &self.dir,
            (self.context.plan, self.spec.variant.as_deref()),
            &self.context.bootstrap,
            &self.topic,
        )?;
        let exe = &self.context.exe;
        let gateway = RoleProcess::plain(
            exe,
            &files.args(ANY_PORT, ANY_PORT),
            ProcessRole::Gateway,
            &self.dir,
        )?;
        let pid = gateway.pid();
        self.processes.push(gateway);
        let what = "the gateway to be ready";
        self.wait(what, READY_TIMEOUT, observer, |_| files.ready().is_some())?;
        self.usage.watch(ProcessRole::Gateway, &[pid]);
        self.usage
            .ready(ProcessRole::Gateway, self.context.clock.now_unix_ns());
        self.gateway = files.ready();
        let ready = self
            .gateway
            .ok_or_else(|| CellAbort::Failed("gateway reported no port".to_owned()))?;
        Ok(ready.listen.to_string())
    }

    fn start_receivers(
        &mut self,
        server: Option<&str>,
        observer: &mut dyn Observer,
    ) -> Result<(), CellAbort> {
        let architecture = self.spec.architecture;
        let role = receiving_role(architecture);
        let args = match server {
            Some(server) => self.workers().clients(architecture, server),
            None => self.workers().consume(architecture),
        };
        self.start_worker(role, &args)?;
        let ramp =
            Duration::try_from_secs_f64(self.spec.clients as f64 / self.context.plan.ramp_per_s);
        let timeout = ramp
            .unwrap_or(Duration::MAX)
            .saturating_add(RECEIVERS_READY_TIMEOUT);
        self.wait_ready(role, timeout, observer)?;
        let connected = self.collected.ready.get(&role).copied().unwrap_or(0);
        if connected < self.spec.clients {
            let missing = self.spec.clients - connected;
            self.notes.push(format!(
                "{missing} of {} clients did not connect",
                self.spec.clients
            ));
        }
        Ok(())
    }

    /// Starts an SDK client in addition to the simulated clients of a gateway. If that fails, the
    /// cell gets a note and stays valid.
    fn start_probe(&mut self, server: Option<&str>, observer: &mut dyn Observer) {
        let (Architecture::Gateway, Some(server)) = (self.spec.architecture, server) else {
            return;
        };
        if !self.context.plan.clients.sdk {
            return;
        }
        let started = match self.context.sdk {
            Ok(sdk) => ProbeProcess::start(sdk, server, self.context.plan, &self.dir),
            Err(reason) => Err(reason.clone()),
        };
        match started {
            Ok(probe) => self.probe = Some(probe),
            Err(reason) => {
                return self.notes.push(format!("no SDK client: {reason}"));
            }
        }
        observer.note("waiting for the SDK client to subscribe");
        let probe = self.probe.take();
        let subscribed = || probe.as_ref().is_some_and(ProbeProcess::is_subscribed);
        let waited = self.wait("the SDK client", PROBE_READY_TIMEOUT, observer, |_| {
            subscribed()
        });
        if waited.is_err() {
            // Its result contains what it reported.
            self.notes
                .push("the SDK client did not subscribe in time".to_owned());
        }
        self.probe = probe;
    }

    fn start_worker(&mut self, role: ProcessRole, args: &[String]) -> Result<(), CellAbort> {
        let messages = self.messages.clone();
        let worker = RoleProcess::worker(&self.context.exe, args, role, &self.dir, messages)?;
        // The producers must keep their schedule even if the system under test uses all CPU time.
        if role.produces() && !worker.raise_priority() {
            let preferred = self.context.producers_preferred;
            preferred.store(false, Ordering::Relaxed);
        }
        self.usage.watch(role, &[worker.pid()]);
        self.processes.push(worker);
        Ok(())
    }

    fn workers(&self) -> Workers<'_> {
        Workers {
            plan: self.context.plan,
            bootstrap: &self.context.bootstrap,
            topic: &self.topic,
            clients: self.spec.clients,
        }
    }

    fn wait_ready(
        &mut self,
        role: ProcessRole,
        timeout: Duration,
        observer: &mut dyn Observer,
    ) -> Result<(), CellAbort> {
        let what = format!("{} to be ready", role.name());
        self.wait(&what, timeout, observer, |events| {
            events.ready.contains_key(&role)
        })?;
        self.usage.ready(role, self.context.clock.now_unix_ns());
        Ok(())
    }

    /// Processes events until `done` returns `true`, at most for `timeout`.
    fn wait(
        &mut self,
        what: &str,
        timeout: Duration,
        observer: &mut dyn Observer,
        done: impl Fn(&Collected) -> bool,
    ) -> Result<(), CellAbort> {
        let deadline = Instant::now().checked_add(timeout);
        let mut next_live = Instant::now();
        loop {
            if done(&self.collected) {
                return Ok(());
            }
            if self.context.stop.load(Ordering::Relaxed) {
                return Err(CellAbort::Interrupted);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let seconds = timeout.as_secs_f64();
                return Err(CellAbort::Failed(format!(
                    "timed out after {seconds:.0} s waiting for {what}"
                )));
            }
            self.check_alive()?;
            self.receive(POLL_INTERVAL);
            if Instant::now() >= next_live {
                next_live = Instant::now() + Duration::from_secs(1);
                observer.live(&self.live("connect", 0.0));
            }
        }
    }

    /// Processes events for `timeout`.
    fn receive(&mut self, timeout: Duration) {
        match self.receiver.recv_timeout(timeout) {
            Ok(message) => self.collected.take(message),
            // Disconnection is impossible: this struct owns a sender.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        while let Ok(message) = self.receiver.try_recv() {
            self.collected.take(message);
        }
    }

    /// Returns an error if a process has exited before the end of the cell.
    fn check_alive(&mut self) -> Result<(), CellAbort> {
        if self.context.broker_has_exited() {
            return Err(CellAbort::Failed(BROKER_EXITED.to_owned()));
        }
        for process in &mut self.processes {
            let role = process.role;
            let is_final = match role {
                role if role.produces() => self.collected.produced.contains_key(&role),
                ProcessRole::Clients | ProcessRole::Consume => self.collected.delivery.is_some(),
                _ => false,
            };
            let has_ended = match role {
                // Workers only count once their output is read completely: it may contain the
                // reason.
                ProcessRole::Broker | ProcessRole::Gateway | ProcessRole::Proxy => {
                    process.exit_status().is_some()
                }
                _ => self.collected.closed.contains(&role),
            };
            if has_ended && !is_final {
                let (name, log_tail) = (role.name(), process.log_tail());
                return Err(CellAbort::Failed(format!(
                    "{name} exited unexpectedly: {log_tail}"
                )));
            }
        }
        Ok(())
    }
}

/// Reason for skipping all further cells.
pub(super) const BROKER_EXITED: &str = "the broker of this run has exited";
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const RECEIVERS_READY_TIMEOUT: Duration = Duration::from_secs(90);
const PROBE_READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for a process to exit before it is killed.
const END_GRACE: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::has_exited;

    #[test]
    fn killed_process_has_exited_before_wait() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(!has_exited(child.id()));
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        while !has_exited(child.id()) {
            assert!(
                std::time::Instant::now() < deadline,
                "killed process is still running"
            );
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(has_exited(child.id()) && has_exited(u32::MAX));
    }
}
