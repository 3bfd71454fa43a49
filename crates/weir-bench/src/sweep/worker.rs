//! One worker process of a sweep cell.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use super::super::cell::CellContext;
use super::super::child::{ChildEvent, MESSAGES_QUEUED_MAX, ProcessRole, RoleProcess};
use super::super::collect::Collected;
use super::super::observer::{Live, Observer};
use super::super::result::MeasuredWindow;
use super::super::usage::CellUsage;
use weir_load::clock::nanos;
use weir_load::worker::protocol::{Schedule, WorkerCommand};

/// Running worker, with the usage of the broker.
pub(super) struct SweepWorker<'a> {
    context: &'a CellContext<'a>,
    role: ProcessRole,
    process: RoleProcess,
    receiver: Receiver<ChildEvent>,
    pub(super) collected: Collected,
    pub(super) usage: CellUsage,
    pub(super) hlog_name: String,
}

impl<'a> SweepWorker<'a> {
    /// Starts the worker and waits until it is ready.
    pub(super) fn start(
        context: &'a CellContext<'a>,
        id: &str,
        (role, args): (ProcessRole, &[String]),
    ) -> Result<Self, String> {
        let dir = context.dir.join(id);
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let hlog_name = format!("{id}.hlog");
        let now_unix_ns = context.clock.now_unix_ns();
        let message = |error: super::super::BenchError| error.to_string();
        let collected =
            Collected::new(&context.dir.join(&hlog_name), id, now_unix_ns).map_err(message)?;
        let mut usage = CellUsage::default();
        if !context.broker_pids.is_empty() {
            usage.watch(ProcessRole::Broker, &context.broker_pids);
            usage.ready(ProcessRole::Broker, now_unix_ns);
        }
        let (messages, receiver) = mpsc::sync_channel(MESSAGES_QUEUED_MAX);
        let process =
            RoleProcess::worker(&context.exe, args, role, &dir, messages).map_err(message)?;
        if role.produces() && !process.raise_priority() {
            context.producers_preferred.store(false, Ordering::Relaxed);
        }
        usage.watch(role, &[process.pid()]);
        let mut worker = Self {
            context,
            role,
            process,
            receiver,
            collected,
            usage,
            hlog_name,
        };
        worker.wait("to be ready", READY_TIMEOUT, |events| {
            events.ready.contains_key(&role)
        })?;
        worker.usage.ready(role, context.clock.now_unix_ns());
        Ok(worker)
    }

    /// Sends the schedule and returns the measured window.
    pub(super) fn start_load(&mut self) -> MeasuredWindow {
        let plan = self.context.plan;
        let start_unix_ns = self.context.clock.now_unix_ns() + nanos(START_DELAY);
        let from_unix_ns = start_unix_ns + nanos(plan.warm_up);
        let until_unix_ns = from_unix_ns + nanos(plan.hold);
        self.process.send(&WorkerCommand::Start(Schedule {
            start_unix_ns,
            measure_from_unix_ns: from_unix_ns,
            measure_until_unix_ns: until_unix_ns,
            stop_unix_ns: until_unix_ns,
        }));
        MeasuredWindow {
            start_unix_ns,
            from_unix_ns,
            until_unix_ns,
            interrupted: false,
        }
    }

    /// Samples usage every second and processes the worker's events until its summary arrives.
    pub(super) fn finish(
        &mut self,
        window: &MeasuredWindow,
        timeout: Duration,
        observer: &mut dyn Observer,
    ) -> Result<(), String> {
        let deadline = Instant::now() + timeout;
        let mut next_unix_ns = window.start_unix_ns;
        while !self.is_done() {
            if self.context.stop.load(Ordering::Relaxed) {
                return Err("interrupted".to_owned());
            }
            if Instant::now() >= deadline {
                let name = self.role.name();
                return Err(format!("{name} sent no summary in {} s", timeout.as_secs()));
            }
            let now_unix_ns = self.context.clock.now_unix_ns();
            if now_unix_ns >= next_unix_ns {
                self.usage.read(now_unix_ns);
                next_unix_ns = window.next_sample(now_unix_ns);
                observer.live(&self.live(window, now_unix_ns));
            }
            self.receive()?;
        }
        self.usage.read(self.context.clock.now_unix_ns());
        self.collected.flush();
        Ok(())
    }

    fn is_done(&self) -> bool {
        self.collected.produced.contains_key(&self.role) || self.collected.scan.is_some()
    }

    /// Shuts the worker down.
    pub(super) fn end(self) {
        self.process.end(END_GRACE);
    }

    fn wait(
        &mut self,
        what: &str,
        timeout: Duration,
        done: impl Fn(&Collected) -> bool,
    ) -> Result<(), String> {
        let deadline = Instant::now() + timeout;
        while !done(&self.collected) {
            if Instant::now() >= deadline || self.context.stop.load(Ordering::Relaxed) {
                return Err(format!("timed out waiting for {} {what}", self.role.name()));
            }
            self.receive()?;
        }
        Ok(())
    }

    /// Processes events for a short time. Returns an error if the worker has exited without a
    /// summary.
    fn receive(&mut self) -> Result<(), String> {
        if let Ok(message) = self.receiver.recv_timeout(POLL_INTERVAL) {
            self.collected.take(message);
        }
        while let Ok(message) = self.receiver.try_recv() {
            self.collected.take(message);
        }
        if self.collected.closed.contains(&self.role) && !self.is_done() {
            let reported = self.collected.errors.last().cloned();
            let reason = reported.unwrap_or_else(|| self.process.log_tail());
            return Err(format!(
                "{} exited unexpectedly: {reason}",
                self.role.name()
            ));
        }
        Ok(())
    }

    fn live(&self, window: &MeasuredWindow, now_unix_ns: u64) -> Live {
        let seconds = |from: u64, until: u64| until.saturating_sub(from) as f64 / 1e9;
        let plan = self.context.plan;
        let reports = self.collected.progress.get(&self.role);
        let last = reports.and_then(|reports| reports.last());
        Live {
            phase: match now_unix_ns < window.from_unix_ns {
                true => "warm-up",
                false => "hold",
            },
            elapsed_s: seconds(window.start_unix_ns, now_unix_ns),
            total_s: (plan.warm_up + plan.hold).as_secs_f64(),
            connected: 1,
            clients: 1,
            offered_per_s: plan.workload.rate_per_s,
            lag_p99_us: last.and_then(|last| Some(last.p99_us? as f64)),
            cpu_cores: self.usage.cores_at(u64::MAX),
            ..Live::default()
        }
    }
}

const START_DELAY: Duration = Duration::from_millis(300);
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const END_GRACE: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
