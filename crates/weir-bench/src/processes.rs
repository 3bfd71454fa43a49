//! Processes of one cell: starting them, their events, resource usage and files.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use super::cell_clocks::{self, CellClocks};
use super::child::{ChildEvent, MESSAGES_QUEUED_MAX, ProcessRole, RoleInstance, RoleProcess};
use super::collect::Collected;
use super::gateway::GatewayFiles;
use super::observer::Live;
use super::result::MeasuredWindow;
use super::usage::CellUsage;
use crate::experiment::RunContext;
use crate::experiment::turns::{BROKER_EXITED, CellFailure, CellResult};
use weir_engine::inventory::InventoryRole;
use weir_engine::machines::ConnectedMachine;
use weir_load::clock::nanos;
use weir_load::share::WorkerShare;
use weir_load::worker::protocol::{Schedule, WorkerCommand};

/// Processes of one cell; killed when dropped.
pub(super) struct CellProcesses<'a> {
    pub(super) context: RunContext<'a>,
    pub(super) dir: PathBuf,
    pub(super) hlog_name: String,
    messages: SyncSender<ChildEvent>,
    receiver: Receiver<ChildEvent>,
    pub(super) collected: Collected,
    pub(super) usage: CellUsage,
    pub(super) clocks: CellClocks,
    pub(super) running: Vec<RoleProcess>,
    /// The processes of this cell cannot share a role: each runs on the first machine of its role.
    pub(super) is_unshared: bool,
}

impl<'a> CellProcesses<'a> {
    /// Creates directory and interval log of the cell `id`. Only the broker is running.
    pub(super) fn new(context: RunContext<'a>, id: &str) -> CellResult<Self> {
        let hlog_name = format!("{id}.hlog");
        let now_unix_ns = context.run_dir.clock.now_unix_ns();
        let (messages, receiver) = mpsc::sync_channel(MESSAGES_QUEUED_MAX);
        let mut usage = CellUsage::default();
        if !context.broker.pids.is_empty() {
            usage.watch(ProcessRole::Broker, &context.broker.pids);
            usage.ready(ProcessRole::Broker, now_unix_ns);
        }
        Ok(Self {
            dir: context.run_dir.subdir(id)?,
            collected: Collected::new(&context.run_dir.path.join(&hlog_name), id, now_unix_ns)?,
            context,
            hlog_name,
            messages,
            receiver,
            usage,
            clocks: CellClocks::default(),
            running: Vec::new(),
            is_unshared: false,
        })
    }

    pub(super) fn now_unix_ns(&self) -> u64 {
        self.context.run_dir.clock.now_unix_ns()
    }

    /// Starts the workers of a role; producers get priority over the processes that they load.
    pub(super) fn start(&mut self, role: ProcessRole, args: &[String]) -> CellResult {
        let context = self.context;
        self.start_plain(role, args)?;
        let mut started = self.running.iter().filter(|it| it.role == role);
        // The producers must keep their schedule even if the system under test uses all CPU time.
        if role.produces() && !started.all(RoleProcess::raise_priority) {
            let preferred = &context.run_dir.producers_preferred;
            preferred.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Starts the workers of a role with the priority of all other processes: one on this machine,
    /// or one on each machine of the role.
    pub(super) fn start_plain(&mut self, role: ProcessRole, args: &[String]) -> CellResult {
        let options = self.context.run_dir.options;
        let machines = options.machines.as_deref().into_iter();
        let machines = machines.flat_map(|it| it.with(role.in_inventory()));
        // Timed records have a single logical producer with one sequence.
        let is_single = self.is_unshared || role == ProcessRole::ProduceMarked;
        let most = if is_single { 1 } else { usize::MAX };
        let machines: Vec<_> = machines.take(most).collect();
        if machines.is_empty() {
            self.clocks.starts(role, None);
            let messages = self.messages.clone();
            let worker = RoleProcess::worker(&options.exe, args, role, &self.dir, messages)?;
            self.usage.watch(role, worker.pid().as_slice());
            self.running.push(worker);
            return Ok(());
        }
        let hosts = machines.iter().map(|machine| machine.name.clone());
        self.collected.set_hosts(role, hosts);
        for (index, machine) in machines.iter().enumerate() {
            let of = machines.len();
            let args = share_args(args, WorkerShare { index, of });
            self.clocks.starts(role, Some(machine));
            let request = self.clocks.request(machine, &args)?;
            let (instance, messages) = (RoleInstance { role, index }, self.messages.clone());
            let worker = RoleProcess::remote(machine, request, instance, &self.dir, messages)?;
            self.running.push(worker);
        }
        Ok(())
    }

    /// Starts the gateway, whose arguments are `args`.
    pub(super) fn start_gateway(&mut self, args: &[String], files: &GatewayFiles) -> CellResult {
        let role = ProcessRole::Gateway;
        let Some(machine) = self.machine_of(role) else {
            let exe = &self.context.run_dir.options.exe;
            let server = RoleProcess::plain(exe, args, role, &self.dir)?;
            self.usage.watch(role, server.pid().as_slice());
            self.running.push(server);
            return Ok(());
        };
        self.collected.set_hosts(role, [machine.name.clone()]);
        let mut request = self.clocks.request(machine, args)?;
        request.ready_file = Some(files.ready_file.clone());
        if let Some(path) = &files.schema {
            request.files.push(cell_clocks::file(path)?);
        }
        let messages = self.messages.clone();
        let server = RoleProcess::remote(machine, request, role.into(), &self.dir, messages)?;
        self.running.push(server);
        Ok(())
    }

    /// Returns the machine that runs a role alone; `None`: this one.
    pub(super) fn machine_of(&self, role: ProcessRole) -> Option<&'a ConnectedMachine> {
        self.machine_with(role.in_inventory())
    }

    /// Returns the first machine that has a role in the inventory; `None`: this one has it.
    pub(super) fn machine_with(&self, role: InventoryRole) -> Option<&'a ConnectedMachine> {
        let machines = self.context.run_dir.options.machines.as_deref()?;
        machines.with(role).next()
    }

    /// Waits until all workers of a role are ready, and calls `tick` every second.
    pub(super) fn wait_ready(
        &mut self,
        role: ProcessRole,
        timeout: Duration,
        mut tick: impl FnMut(&Self),
    ) -> CellResult {
        let what = |events: &mut Collected| {
            let missing = events.group(role).not_ready(role);
            format!("{missing} to be ready")
        };
        let is_ready = |events: &Collected| events.ready.contains_key(&role);
        self.wait(what, timeout, is_ready, |processes, now_unix_ns| {
            tick(processes);
            now_unix_ns + SECOND_NS
        })?;
        let now_unix_ns = self.now_unix_ns();
        self.usage.ready(role, now_unix_ns);
        Ok(())
    }

    /// Processes events until `done` returns `true`, at most for `timeout`. Calls `tick` at once,
    /// then at each time that it returns. `what` returns what is missing after the timeout.
    pub(super) fn wait(
        &mut self,
        what: impl FnOnce(&mut Collected) -> String,
        timeout: Duration,
        done: impl Fn(&Collected) -> bool,
        mut tick: impl FnMut(&mut Self, u64) -> u64,
    ) -> CellResult {
        let deadline = Instant::now().checked_add(timeout);
        let mut next_unix_ns = 0;
        while !done(&self.collected) {
            if self.context.run_dir.is_stopped() {
                return Err(CellFailure::Interrupted);
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                let (seconds, what) = (timeout.as_secs_f64(), what(&mut self.collected));
                let reason = format!("timed out after {seconds:.0} s waiting for {what}");
                return Err(CellFailure::because(reason));
            }
            self.check_alive()?;
            let now_unix_ns = self.now_unix_ns();
            if now_unix_ns >= next_unix_ns {
                next_unix_ns = tick(self, now_unix_ns);
            }
            self.receive(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Waits for the last results of `role` also after an interruption, because the measurement is
    /// complete.
    pub(super) fn wait_final(&mut self, role: ProcessRole, timeout: Duration) -> CellResult {
        let deadline = Instant::now() + timeout;
        while !self.collected.is_final(role) {
            if Instant::now() >= deadline {
                let missing = self.collected.group(role).not_finished(role);
                let reason = format!("{missing} sent no summary in time");
                return Err(CellFailure::because(reason));
            }
            self.check_alive()?;
            self.receive(POLL_INTERVAL);
        }
        Ok(())
    }

    pub(super) fn receive(&mut self, timeout: Duration) {
        // Disconnection is impossible: this struct owns a sender.
        if let Ok(message) = self.receiver.recv_timeout(timeout) {
            self.collected.handle(message);
        }
        while let Ok(message) = self.receiver.try_recv() {
            self.collected.handle(message);
        }
        for (instance, sample) in self.collected.samples.drain(..) {
            self.usage.add(instance, sample);
        }
    }

    /// Returns an error if the broker, or a process without its last result, has exited.
    pub(super) fn check_alive(&mut self) -> CellResult {
        if self.context.broker.has_exited() {
            return Err(CellFailure::because(BROKER_EXITED));
        }
        for process in &mut self.running {
            let instance = process.instance();
            let has_ended = match instance.role {
                ProcessRole::Gateway => process.exit_status().is_some(),
                // Workers only count once their output is read completely: it may contain the
                // reason.
                _ => self.collected.closed.contains(&instance),
            };
            if has_ended && !self.collected.has_ended(instance) {
                let (name, log_tail) = (self.collected.label(instance), process.log_tail());
                let reason = format!("{name} exited unexpectedly: {log_tail}");
                return Err(CellFailure::because(reason).and(&mut self.collected.errors));
            }
        }
        Ok(())
    }

    pub(super) fn send(&mut self, role: ProcessRole, command: &WorkerCommand) {
        let addressed = self.running.iter_mut().filter(|it| it.role == role);
        addressed.for_each(|process| process.send(command));
    }

    /// Runs a single worker until it has sent its last result, without a pause between warm-up and
    /// measured window. Samples usage and reports `live` at the seconds of the window.
    pub(super) fn run_worker(
        &mut self,
        (role, args): (ProcessRole, &[String]),
        [warm_up, hold, timeout]: [Duration; 3],
        mut live: impl FnMut(&Live),
    ) -> CellResult<MeasuredWindow> {
        self.start(role, args)?;
        self.wait_ready(role, READY_TIMEOUT, |_| {})?;
        let window = MeasuredWindow::after(self.now_unix_ns(), warm_up, hold);
        self.send(
            role,
            &WorkerCommand::Start(window.schedule(window.until_unix_ns)),
        );
        let what = |_: &mut Collected| format!("the summary of {}", role.name());
        let mut next_unix_ns = window.start_unix_ns;
        let is_final = |events: &Collected| events.is_final(role);
        self.wait(what, timeout, is_final, |processes, now_unix_ns| {
            if now_unix_ns >= next_unix_ns {
                processes.usage.read(now_unix_ns);
                live(&processes.live(role, &window, now_unix_ns));
                next_unix_ns = window.next_sample(now_unix_ns);
            }
            next_unix_ns
        })?;
        let now_unix_ns = self.now_unix_ns();
        self.usage.read(now_unix_ns);
        self.collected.flush();
        self.end();
        Ok(window)
    }

    fn live(&self, role: ProcessRole, window: &MeasuredWindow, now_unix_ns: u64) -> Live {
        let reports = self.collected.progress.get(&role);
        let last = reports.and_then(|all| all.last());
        Live {
            phase: match now_unix_ns < window.from_unix_ns {
                true => "warm-up",
                false => "hold",
            },
            elapsed_s: now_unix_ns.saturating_sub(window.start_unix_ns) as f64 / 1e9,
            total_s: window.load_s(),
            connected: 1,
            clients: 1,
            lag_p99_us: last.and_then(|last| Some(last.p99_us? as f64)),
            cpu_cores: self.usage.cores_at(u64::MAX),
            ..Live::default()
        }
    }

    /// Ends all processes. Receivers were started after their server and end first, so that no
    /// client sees it disconnect.
    pub(super) fn end(&mut self) {
        for process in self.running.drain(..).rev() {
            process.end(END_GRACE);
        }
    }
}

/// Returns the arguments of a process that runs a share.
fn share_args(args: &[String], share: WorkerShare) -> Vec<String> {
    let mut args = args.to_vec();
    if share != WorkerShare::WHOLE {
        args.extend(["--share".to_owned(), share.to_string()]);
    }
    args
}

impl MeasuredWindow {
    /// Returns the window of a load that starts soon.
    pub(super) fn after(now_unix_ns: u64, warm_up: Duration, hold: Duration) -> Self {
        let start_unix_ns = now_unix_ns + nanos(START_DELAY);
        let from_unix_ns = start_unix_ns + nanos(warm_up);
        Self {
            start_unix_ns,
            from_unix_ns,
            until_unix_ns: from_unix_ns + nanos(hold),
            interrupted: false,
        }
    }

    /// Returns the schedule of a worker that stops at `stop_unix_ns`.
    pub(super) fn schedule(&self, stop_unix_ns: u64) -> Schedule {
        Schedule {
            start_unix_ns: self.start_unix_ns,
            measure_from_unix_ns: self.from_unix_ns,
            measure_until_unix_ns: self.until_unix_ns,
            stop_unix_ns,
        }
    }
}

/// Time for the start command to reach all workers before the first record is due.
const START_DELAY: Duration = Duration::from_millis(300);
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);
pub(super) const READY_TIMEOUT: Duration = Duration::from_secs(60);
/// Time for a process to exit before it is killed.
const END_GRACE: Duration = Duration::from_secs(15);
const SECOND_NS: u64 = 1_000_000_000;
