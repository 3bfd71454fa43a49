//! Runs one cell: starts the processes, applies the load, waits for the last records, computes the
//! results and ends the processes.

mod external;
mod live;
mod load;
mod spec;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use weir_engine::inventory::InventoryRole;
use weir_engine::machines::ConnectedMachine;
use weir_engine::session::RoleProgram;
use weir_stats::run::Cell;

use super::cell_clocks;
use super::child::ProcessRole;
use super::collect::Collected;
use super::gateway::{self, GatewayFiles, GatewayReady};
use super::observer::Observer;
use super::probe::{ProbeError, ProbeProcess, ProbeScript};
use super::processes::{CellProcesses, READY_TIMEOUT};
use super::workers::{Workers, receiving_role};
use crate::experiment::turns::{CellFailure, CellResult};
use crate::plan::Architecture;
pub(super) use spec::{CellContext, CellSpec};

/// Runs one cell, always ends its processes, and sets the results.
pub(super) fn run(
    context: CellContext<'_>,
    spec: CellSpec<'_>,
    cell: &mut Cell,
    observer: &mut dyn Observer,
) {
    let measured = RunningCell::start(context, spec, &cell.id()).and_then(|mut running| {
        let window = running.measure(observer);
        let collected = &mut running.processes.collected;
        collected.flush();
        let window = window.map_err(|failure| failure.and(&mut collected.errors))?;
        running.result(cell, &window);
        Ok(())
    });
    if let Err(failure) = measured {
        cell.status = failure.status();
    }
}

struct RunningCell<'a> {
    context: CellContext<'a>,
    spec: CellSpec<'a>,
    topic: String,
    processes: CellProcesses<'a>,
    gateway: Option<GatewayReady>,
    probe: Option<ProbeProcess>,
    /// Largest possible difference between the clocks of two processes, in nanoseconds; `None` with
    /// one clock.
    clock_bound_ns: Option<u64>,
    notes: Vec<String>,
}

impl<'a> RunningCell<'a> {
    fn start(context: CellContext<'a>, spec: CellSpec<'a>, id: &str) -> CellResult<Self> {
        let mut processes = CellProcesses::new(context.run, id)?;
        let has_background = context.plan.workload.marked_per_s > 0.0;
        processes.collected.background = has_background.then_some(ProcessRole::Produce);
        let unique = || context.run.topic_name(&context.plan.name, id);
        Ok(Self {
            context,
            spec,
            topic: context.plan.topic.clone().unwrap_or_else(unique),
            processes,
            gateway: None,
            probe: None,
            clock_bound_ns: None,
            notes: Vec::new(),
        })
    }

    /// Creates the topic, or checks that the topic named in the plan exists.
    fn prepare_topic(&self) -> CellResult {
        let (broker, topic) = (self.context.run.broker, &self.topic);
        let workload = &self.context.plan.workload;
        if self.context.plan.topic.is_none() {
            let topics = &self.context.plan.topics;
            let own = topics.config.iter().map(|(key, value)| (&**key, &**value));
            let config: Vec<_> = own.chain([workload.timestamps.topic_config()]).collect();
            let size = (workload.partitions, topics.replication_factor);
            for name in weir_load::topic::names(topic, topics.count) {
                broker.create_topic(&name, size, &config)?;
            }
            return Ok(());
        }
        match broker.admin.topic_exists(topic)? {
            true => Ok(()),
            false => Err(CellFailure::because(format!(
                "topic \"{topic}\" does not exist: create it or omit --topic"
            ))),
        }
    }

    fn start_producers(&mut self, observer: &mut dyn Observer) -> CellResult {
        let produce = self.workers().produce();
        self.processes.start(ProcessRole::Produce, &produce)?;
        if self.context.plan.workload.marked_per_s > 0.0 {
            let marked = self.workers().produce_marked();
            self.processes.start(ProcessRole::ProduceMarked, &marked)?;
            self.wait_ready(ProcessRole::ProduceMarked, READY_TIMEOUT, observer)?;
        }
        self.wait_ready(ProcessRole::Produce, READY_TIMEOUT, observer)
    }

    /// Starts the server between broker and clients and returns its address, if the architecture
    /// has one.
    fn start_server(&mut self, observer: &mut dyn Observer) -> CellResult<Option<String>> {
        match self.spec.architecture {
            Architecture::Groups | Architecture::Standalone => Ok(None),
            Architecture::Floor => {
                let floor = self.workers().floor(self.listen(ProcessRole::Floor));
                self.processes.start(ProcessRole::Floor, &floor)?;
                self.wait_ready(ProcessRole::Floor, READY_TIMEOUT, observer)?;
                let port = self.processes.collected.port;
                let port = port.ok_or_else(|| CellFailure::because("floor reported no port"))?;
                let address = match self.processes.machine_of(ProcessRole::Floor) {
                    Some(machine) => gateway::resolve(&machine.address, port)?,
                    None => SocketAddr::new(self.listen(ProcessRole::Floor), port),
                };
                Ok(Some(address.to_string()))
            }
            Architecture::Gateway => match self.spec.external(self.context.plan) {
                Some(gateway) => self.start_external(gateway, observer).map(Some),
                None => self.start_gateway(observer).map(Some),
            },
        }
    }

    /// Returns the address at which a server listens: on another machine all, on this one that at
    /// which clients reach it.
    fn listen(&self, role: ProcessRole) -> IpAddr {
        if self.processes.machine_of(role).is_some() {
            return IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        }
        let machines = self.context.run.run_dir.options.machines.as_ref();
        machines.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |it| it.listen)
    }

    fn start_gateway(&mut self, observer: &mut dyn Observer) -> CellResult<String> {
        let (context, role) = (self.context.run, ProcessRole::Gateway);
        let plan = (self.context.plan, self.spec.variant);
        let dir = &self.processes.dir;
        let machine = self.processes.machine_of(role);
        let mut files = GatewayFiles::write(dir, plan, context.broker.connection(), &self.topic)?;
        if machine.is_some() {
            files.require_token(dir)?;
        }
        let listen = SocketAddr::new(self.listen(role), 0);
        let args = files.args(listen, machine.map_or(ANY_PORT, |_| listen));
        self.processes.start_gateway(&args, &files)?;
        let is_ready = |events: &Collected| events.ready_file.is_some() || files.ready().is_some();
        self.wait("the gateway to be ready", READY_TIMEOUT, observer, is_ready)?;
        let now_unix_ns = self.processes.now_unix_ns();
        self.processes.usage.ready(role, now_unix_ns);
        let sent = self.processes.collected.ready_file.as_deref();
        let ready = sent.map_or_else(|| files.ready(), GatewayReady::parse);
        let ready = ready.ok_or_else(|| CellFailure::because("gateway reported no port"))?;
        let ready = match machine {
            Some(machine) => ready.on(&machine.address, &files)?,
            None => ready,
        };
        let listen = ready.listen.to_string();
        self.gateway = Some(ready);
        Ok(listen)
    }

    fn start_receivers(&mut self, server: Option<&str>, observer: &mut dyn Observer) -> CellResult {
        let (architecture, clients) = (self.spec.architecture, self.spec.clients);
        let role = receiving_role(architecture);
        let args = match server {
            Some(server) => {
                let external = self.spec.external(self.context.plan);
                self.workers().clients(architecture, server, external)
            }
            None => self.workers().consume(architecture),
        };
        self.processes.start(role, &args)?;
        let ramp = Duration::try_from_secs_f64(clients as f64 / self.context.plan.ramp_per_s);
        let ramp = ramp.unwrap_or(Duration::MAX);
        let timeout = ramp.saturating_add(RECEIVERS_READY_TIMEOUT);
        self.wait_ready(role, timeout, observer)?;
        let connected = self.processes.collected.ready.get(&role).copied();
        let missing = clients.saturating_sub(connected.unwrap_or(0));
        if missing > 0 {
            let note = format!("{missing} of {clients} clients did not connect");
            self.notes.push(note);
        }
        Ok(())
    }

    /// Starts an SDK client in addition to the simulated clients of a gateway. If that fails, the
    /// cell gets a note and stays valid.
    fn start_probe(&mut self, server: Option<&str>, observer: &mut dyn Observer) -> CellResult {
        let (Architecture::Gateway, Some(server)) = (self.spec.architecture, server) else {
            return Ok(());
        };
        if !self.context.plan.clients.sdk || self.spec.external(self.context.plan).is_some() {
            return Ok(());
        }
        let machine = self.processes.machine_with(InventoryRole::Probe);
        let probe = match self.probe(server, machine)? {
            Ok(probe) => probe,
            Err(reason) => {
                self.notes.push(format!("no SDK client: {reason}"));
                return Ok(());
            }
        };
        observer.note("waiting for the SDK client to subscribe");
        let is_ready = |_: &Collected| probe.is_subscribed() || probe.ended().is_some();
        let timeout = match machine {
            Some(_) => PROBE_INSTALLED_TIMEOUT,
            None => PROBE_READY_TIMEOUT,
        };
        let waited = self.wait("the SDK client", timeout, observer, is_ready);
        match probe.ended() {
            Some(reason) => {
                let host = machine.map(|machine| format!(" on {}", machine.name));
                let host = host.unwrap_or_default();
                self.notes.push(format!("no SDK client{host}: {reason}"));
                return Ok(());
            }
            // The output of the client is in its result.
            None if waited.is_err() => {
                let note = "the SDK client did not subscribe in time";
                self.notes.push(note.to_owned());
            }
            None => {}
        }
        self.processes.clocks.starts(ProcessRole::Clients, machine);
        self.probe = Some(probe);
        Ok(())
    }

    fn probe(
        &mut self,
        server: &str,
        machine: Option<&ConnectedMachine>,
    ) -> CellResult<Result<ProbeProcess, ProbeError>> {
        let script = ProbeScript::write(&self.processes.dir, server, self.context.plan);
        let script = match script {
            Ok(script) => script,
            Err(error) => return Ok(Err(error.into())),
        };
        let Some(machine) = machine else {
            return Ok(match self.context.sdk {
                Ok(sdk) => ProbeProcess::start(sdk, script),
                Err(reason) => Err(ProbeError::Absent(reason.to_string())),
            });
        };
        let mut request = self.processes.clocks.request(machine, &script.args())?;
        request.program = RoleProgram::NodeSdk;
        request.files.push(cell_clocks::file(&script.path)?);
        Ok(ProbeProcess::remote(machine, request, script))
    }

    fn workers(&self) -> Workers<'_> {
        Workers {
            plan: self.context.plan,
            connection: self.context.run.broker.connection(),
            topic: &self.topic,
            clients: self.spec.clients,
        }
    }

    fn wait_ready(
        &mut self,
        role: ProcessRole,
        timeout: Duration,
        observer: &mut dyn Observer,
    ) -> CellResult {
        let (plan, spec) = (self.context.plan, self.spec);
        self.processes.wait_ready(role, timeout, |processes| {
            observer.live(&live::live(plan, spec, processes, "connect", 0.0));
        })
    }

    /// Waits for a process that does not speak the worker protocol.
    fn wait(
        &mut self,
        what: &str,
        timeout: Duration,
        observer: &mut dyn Observer,
        done: impl Fn(&Collected) -> bool,
    ) -> CellResult {
        let (plan, spec) = (self.context.plan, self.spec);
        let tick = |processes: &mut CellProcesses<'_>, now_unix_ns| {
            observer.live(&live::live(plan, spec, processes, "connect", 0.0));
            now_unix_ns + live::SECOND_NS
        };
        let what = |_: &mut Collected| what.to_owned();
        self.processes.wait(what, timeout, done, tick)
    }
}

const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
const RECEIVERS_READY_TIMEOUT: Duration = Duration::from_secs(90);
const PROBE_READY_TIMEOUT: Duration = Duration::from_secs(20);
/// Time for an SDK client on another machine, which may have to install the SDK.
const PROBE_INSTALLED_TIMEOUT: Duration = Duration::from_secs(120);
