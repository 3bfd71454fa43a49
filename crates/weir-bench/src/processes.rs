//! Processes of one cell: starting them, their events, resource usage and files.

use std::fmt::Display;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::time::{Duration, Instant};

use super::cell_clocks::CellClocks;
use super::child::{ChildEvent, MESSAGES_QUEUED_MAX, ProcessRole, RoleProcess};
use super::collect::Collected;
use super::observer::Live;
use super::result::MeasuredWindow;
use super::usage::CellUsage;
use crate::experiment::RunContext;
use crate::experiment::turns::{BROKER_EXITED, CellFailure, CellResult};
use weir_load::clock::nanos;
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
        })
    }

    pub(super) fn now_unix_ns(&self) -> u64 {
        self.context.run_dir.clock.now_unix_ns()
    }

    /// Starts a worker; producers get priority over the processes that they load.
    pub(super) fn start(&mut self, role: ProcessRole, args: &[String]) -> CellResult {
        let context = self.context;
        let worker = self.start_plain(role, args)?;
        // The producers must keep their schedule even if the system under test uses all CPU time.
        if role.produces() && !worker.raise_priority() {
            let preferred = &context.run_dir.producers_preferred;
            preferred.store(false, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Starts a worker with the priority of all other processes.
    pub(super) fn start_plain(
        &mut self,
        role: ProcessRole,
        args: &[String],
    ) -> CellResult<&RoleProcess> {
        let (options, messages) = (self.context.run_dir.options, self.messages.clone());
        let machines = options.machines.as_ref();
        let worker = match machines.and_then(|it| it.with(role.in_inventory())) {
            Some(machine) => {
                let request = self.clocks.request(machine, args)?;
                RoleProcess::remote_worker(machine, request, role, &self.dir, messages)?
            }
            None => {
                let worker = RoleProcess::worker(&options.exe, args, role, &self.dir, messages)?;
                self.usage.watch(role, worker.pid().as_slice());
                worker
            }
        };
        self.running.push(worker);
        Ok(&self.running[self.running.len() - 1])
    }

    /// Waits until a worker is ready, and calls `tick` every second.
    pub(super) fn wait_ready(
        &mut self,
        role: ProcessRole,
        timeout: Duration,
        mut tick: impl FnMut(&Self),
    ) -> CellResult {
        let what = format!("{} to be ready", role.name());
        let is_ready = |events: &Collected| events.ready.contains_key(&role);
        self.wait(&what, timeout, is_ready, |processes, now_unix_ns| {
            tick(processes);
            now_unix_ns + SECOND_NS
        })?;
        let now_unix_ns = self.now_unix_ns();
        self.usage.ready(role, now_unix_ns);
        Ok(())
    }

    /// Processes events until `done` returns `true`, at most for `timeout`. Calls `tick` at once,
    /// then at each time that it returns.
    pub(super) fn wait(
        &mut self,
        what: impl Display,
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
                let seconds = timeout.as_secs_f64();
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

    /// Waits for the last result of `role` also after an interruption, because the measurement is
    /// complete.
    pub(super) fn wait_final(&mut self, role: ProcessRole, timeout: Duration) -> CellResult {
        let deadline = Instant::now() + timeout;
        while !self.collected.is_final(role) {
            if Instant::now() >= deadline {
                let reason = format!("{} sent no summary in time", role.name());
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
            self.collected.take(message);
        }
        while let Ok(message) = self.receiver.try_recv() {
            self.collected.take(message);
        }
        for (role, sample) in self.collected.samples.drain(..) {
            self.usage.add(role, sample);
        }
    }

    /// Returns an error if the broker, or a process without its last result, has exited.
    pub(super) fn check_alive(&mut self) -> CellResult {
        if self.context.broker.has_exited() {
            return Err(CellFailure::because(BROKER_EXITED));
        }
        for process in &mut self.running {
            let role = process.role;
            let has_ended = match role {
                ProcessRole::Gateway => process.exit_status().is_some(),
                // Workers only count once their output is read completely: it may contain the
                // reason.
                _ => self.collected.closed.contains(&role),
            };
            if has_ended && !self.collected.is_final(role) {
                let (name, log_tail) = (role.name(), process.log_tail());
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
        let what = format!("the summary of {}", role.name());
        let mut next_unix_ns = window.start_unix_ns;
        let is_final = |events: &Collected| events.is_final(role);
        self.wait(&what, timeout, is_final, |processes, now_unix_ns| {
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
