//! Load phases of a cell: warm-up, measured window, drain, and the result.

use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_stats::run::Cell;
use weir_stats::steady_state;

use super::super::child::{ProcessRole, RoleProcess};
use super::super::gateway;
use super::super::observer::{Live, Observer};
use super::super::result::{self, Measured, MeasuredWindow};
use super::super::workers::receiving_role;
use super::{CellAbort, END_GRACE, RunningCell};
use crate::plan::Architecture;
use weir_load::clock::nanos;
use weir_load::worker::protocol::{Schedule, WorkerCommand, WorkerProgress};

impl RunningCell<'_> {
    /// Sends the schedule to all workers. The measured window is the latest that the plan allows;
    /// it moves forward when the load reaches a steady state.
    pub(super) fn schedule(&mut self) -> MeasuredWindow {
        let plan = self.context.plan;
        let start_unix_ns = self.context.clock.now_unix_ns() + nanos(START_DELAY);
        let from_unix_ns = start_unix_ns + nanos(plan.warm_up.max(plan.warm_up_max));
        let window = MeasuredWindow {
            start_unix_ns,
            from_unix_ns,
            until_unix_ns: from_unix_ns + nanos(plan.hold),
            interrupted: false,
        };
        self.announce(&window);
        window
    }

    /// Sends the schedule of `window` to all workers. The producers continue a little past the
    /// window, so that its last records are delivered under load.
    fn announce(&mut self, window: &MeasuredWindow) {
        let until_unix_ns = window.until_unix_ns;
        for process in &mut self.processes {
            let stop_unix_ns = match process.role {
                role if role.produces() => until_unix_ns + nanos(TAIL),
                // Receivers stop on a command; this is the limit if this process has exited.
                _ => {
                    let drain = nanos(self.context.plan.drain);
                    until_unix_ns + nanos(TAIL) + drain + nanos(ABANDONED_TIMEOUT)
                }
            };
            process.send(&WorkerCommand::Start(Schedule {
                start_unix_ns: window.start_unix_ns,
                measure_from_unix_ns: window.from_unix_ns,
                measure_until_unix_ns: until_unix_ns,
                stop_unix_ns,
            }));
        }
    }

    /// Starts the measured window when the load has reached a steady state, unless the plan has a
    /// fixed warm-up.
    fn await_steady_state(&mut self, window: &mut MeasuredWindow, now_unix_ns: u64) {
        let from_unix_ns = now_unix_ns + nanos(MOVE_DELAY);
        let earliest_unix_ns = window.start_unix_ns + nanos(self.context.plan.warm_up);
        if from_unix_ns < earliest_unix_ns || from_unix_ns >= window.from_unix_ns {
            return;
        }
        let receiving = receiving_role(self.spec.architecture);
        let reports = self.collected.progress.get(&receiving);
        if !is_steady(reports.map_or(&[], Vec::as_slice), window.start_unix_ns) {
            return;
        }
        window.from_unix_ns = from_unix_ns;
        window.until_unix_ns = from_unix_ns + nanos(self.context.plan.hold);
        self.announce(window);
    }

    /// Samples usage and reports progress until the window and its tail are over. An interruption
    /// inside the window ends the window; an earlier one aborts the cell.
    pub(super) fn load(
        &mut self,
        window: &mut MeasuredWindow,
        observer: &mut dyn Observer,
    ) -> Result<(), CellAbort> {
        let mut next_unix_ns = window.start_unix_ns;
        loop {
            let end_unix_ns = window.until_unix_ns + nanos(TAIL);
            let now_unix_ns = self.context.clock.now_unix_ns();
            if now_unix_ns >= end_unix_ns {
                return Ok(());
            }
            if self.context.stop.load(Ordering::Relaxed) {
                return self.cut(window, now_unix_ns);
            }
            self.check_alive()?;
            if now_unix_ns >= next_unix_ns {
                self.usage.read(now_unix_ns);
                self.await_steady_state(window, now_unix_ns);
                if window.is_edge(now_unix_ns) {
                    self.scrape_gateway(None);
                }
                next_unix_ns = window.next_sample(now_unix_ns);
                let phase = match now_unix_ns {
                    now if now < window.from_unix_ns => "warm-up",
                    now if now < window.until_unix_ns => "hold",
                    _ => "drain",
                };
                let elapsed_ns = now_unix_ns.saturating_sub(window.start_unix_ns);
                observer.live(&self.live(phase, elapsed_ns as f64 / 1e9));
            }
            let pause_ns = next_unix_ns.min(end_unix_ns).saturating_sub(now_unix_ns);
            self.receive(Duration::from_nanos(pause_ns).min(super::POLL_INTERVAL));
        }
    }

    fn cut(&mut self, window: &mut MeasuredWindow, now_unix_ns: u64) -> Result<(), CellAbort> {
        if now_unix_ns <= window.from_unix_ns {
            return Err(CellAbort::Interrupted);
        }
        self.usage.read(now_unix_ns);
        self.scrape_gateway(None);
        if now_unix_ns < window.until_unix_ns {
            window.until_unix_ns = now_unix_ns;
            window.interrupted = true;
        }
        Ok(())
    }

    /// Waits for the producers' ledger, lets the receivers settle against it, and ends all
    /// processes.
    pub(super) fn settle(
        &mut self,
        window: &MeasuredWindow,
        observer: &mut dyn Observer,
    ) -> Result<(), CellAbort> {
        if window.interrupted {
            self.send(ProcessRole::Produce, &WorkerCommand::Stop);
            self.send(ProcessRole::ProduceMarked, &WorkerCommand::Stop);
        }
        let producers: Vec<ProcessRole> =
            self.processes.iter().map(|process| process.role).collect();
        for role in producers.into_iter().filter(|role| role.produces()) {
            let reported = |events: &super::Collected| events.produced.contains_key(&role);
            self.wait_final(PRODUCE_SUMMARY_TIMEOUT, reported, role.name())?;
        }
        let receiving = receiving_role(self.spec.architecture);
        let entries = self.collected.ledger();
        self.send(receiving, &WorkerCommand::Ledger { entries });
        observer.live(&self.live("drain", window.load_s()));
        let drain = self.context.plan.drain;
        let settled = self
            .wait_final(drain, |events| events.delivery.is_some(), receiving.name())
            .is_ok();
        if !settled {
            self.check_alive()?;
            self.send(receiving, &WorkerCommand::Stop);
            self.wait_final(
                SUMMARY_TIMEOUT,
                |events| events.delivery.is_some(),
                receiving.name(),
            )?;
        }
        self.scrape_gateway(Some("gateway-metrics.txt"));
        // Receivers end first, so that no client sees its server disconnect.
        for process in self.processes.drain(..).rev() {
            process.end(END_GRACE);
        }
        Ok(())
    }

    /// Reads the gateway's counters, and writes the complete response to `file` if given.
    fn scrape_gateway(&mut self, file: Option<&str>) {
        let Some(gateway) = self.gateway else { return };
        let metrics = gateway::metrics(gateway.admin);
        let unix_ns = self.context.clock.now_unix_ns();
        let written = metrics.and_then(|metrics| {
            let counters = gateway::counters(&metrics);
            let progress = WorkerProgress {
                unix_ns,
                counters,
                ..WorkerProgress::default()
            };
            self.collected
                .progress
                .entry(ProcessRole::Gateway)
                .or_default()
                .push(progress);
            file.map_or(Ok(()), |file| std::fs::write(self.dir.join(file), metrics))
        });
        if let Err(error) = written {
            self.notes
                .push(format!("reading the gateway's metrics failed: {error}"));
        }
    }

    /// Waits like `wait`, but ignores interruptions, because the measurement is complete.
    fn wait_final(
        &mut self,
        timeout: Duration,
        done: impl Fn(&super::Collected) -> bool,
        role: &str,
    ) -> Result<(), CellAbort> {
        let deadline = std::time::Instant::now() + timeout;
        while !done(&self.collected) {
            if std::time::Instant::now() >= deadline {
                return Err(CellAbort::Failed(format!("{role} sent no summary in time")));
            }
            self.check_alive()?;
            self.receive(super::POLL_INTERVAL);
        }
        Ok(())
    }

    fn send(&mut self, role: ProcessRole, command: &WorkerCommand) {
        for process in self
            .processes
            .iter_mut()
            .filter(|process| process.role == role)
        {
            RoleProcess::send(process, command);
        }
    }

    /// Returns the current state for the progress display.
    pub(super) fn live(&self, phase: &'static str, elapsed_s: f64) -> Live {
        let plan = self.context.plan;
        let receiving = receiving_role(self.spec.architecture);
        let produced = self.last_two_windows(ProcessRole::Produce);
        let received = self.last_two_windows(receiving);
        let is_moving = elapsed_s > 0.0;
        let last = received.map(|(_, last)| last).filter(|_| is_moving);
        Live {
            phase,
            elapsed_s,
            total_s: (plan.warm_up + plan.hold).as_secs_f64(),
            connected: self.connected(receiving),
            clients: self.spec.clients,
            offered_per_s: plan.workload.rate_per_s,
            achieved_per_s: produced.and_then(|pair| rate(pair, "acked")),
            delivered_per_s: received.and_then(|pair| rate(pair, "updates")),
            p50_us: last.and_then(|progress| Some(progress.p50_us? as f64)),
            p99_us: last.and_then(|progress| Some(progress.p99_us? as f64)),
            lag_p99_us: produced.and_then(|(_, last)| Some(last.p99_us? as f64)),
            backlog: self.backlog().filter(|_| is_moving),
            cpu_cores: self.usage.cores_at(u64::MAX),
        }
    }

    /// Returns the number of deliveries that the receivers still lack of the acknowledged records.
    fn backlog(&self) -> Option<u64> {
        let receiving = receiving_role(self.spec.architecture);
        let last = |role| self.collected.progress.get(&role)?.last();
        let (produced, received) = (last(ProcessRole::Produce)?, last(receiving)?);
        let now_unix_ns = produced.unix_ns.min(received.unix_ns);
        let counter = |role, name| self.collected.counter_at(role, name, now_unix_ns);
        let acked = self.collected.acked_at(now_unix_ns)?;
        let due = acked * self.fan_out();
        let late = due - counter(receiving, "updates")?;
        // Deliveries of the latest record are always in flight.
        Some(if late < self.fan_out() {
            0
        } else {
            late as u64
        })
    }

    /// Returns the average number of deliveries per record.
    fn fan_out(&self) -> f64 {
        match self.spec.architecture {
            Architecture::Gateway | Architecture::Floor => {
                let clients = &self.context.plan.clients;
                clients.deliveries_per_record(self.spec.clients)
            }
            Architecture::Groups | Architecture::Standalone => self.spec.clients as f64,
        }
    }

    fn connected(&self, receiving: ProcessRole) -> u64 {
        let progress = self
            .collected
            .progress
            .get(&receiving)
            .and_then(|all| all.last());
        let counter = progress.and_then(|progress| progress.counters.get("connected").copied());
        counter.unwrap_or_else(|| self.collected.ready.get(&receiving).copied().unwrap_or(0))
    }

    fn last_two_windows(&self, role: ProcessRole) -> Option<(&WorkerProgress, &WorkerProgress)> {
        match self.collected.progress.get(&role)?.as_slice() {
            [.., before, last] => Some((before, last)),
            _ => None,
        }
    }

    /// Returns the cell with its results.
    pub(super) fn result(self, cell: Cell, window: &MeasuredWindow) -> Cell {
        let mut cell = result::build(
            cell,
            window,
            Measured {
                plan: self.context.plan,
                receiving: receiving_role(self.spec.architecture),
                collected: &self.collected,
                usage: &self.usage,
            },
        );
        cell.hlog_file = Some(self.hlog_name);
        cell.notes.extend(self.notes);
        let ledger = self.collected.ledger();
        cell.probe = self.probe.map(|probe| probe.finish(window, &ledger));
        cell
    }
}

/// Returns `true` if the median response time has reached a steady state. Ignores the first report,
/// which includes the time before the load.
fn is_steady(reports: &[WorkerProgress], start_unix_ns: u64) -> bool {
    let whole = reports
        .iter()
        .filter(|report| report.unix_ns >= start_unix_ns + SECOND_NS);
    let medians: Vec<f64> = whole
        .filter_map(|report| report.p50_us)
        .filter(|us| *us > 0)
        .map(|us| us as f64)
        .collect();
    steady_state::warm_up_len(&medians).is_some()
}

fn rate((before, last): (&WorkerProgress, &WorkerProgress), counter: &str) -> Option<f64> {
    let span_s = last.unix_ns.saturating_sub(before.unix_ns) as f64 / 1e9;
    let (before, last) = (before.counters.get(counter)?, last.counters.get(counter)?);
    (span_s > 0.0).then(|| last.saturating_sub(*before) as f64 / span_s)
}

/// Time for the start command to reach all workers before the first record is due.
const START_DELAY: Duration = Duration::from_millis(300);
/// Time for a moved window to reach all workers, including busy ones.
const MOVE_DELAY: Duration = Duration::from_secs(1);
const SECOND_NS: u64 = 1_000_000_000;
const TAIL: Duration = Duration::from_millis(500);
const ABANDONED_TIMEOUT: Duration = Duration::from_secs(60);
const PRODUCE_SUMMARY_TIMEOUT: Duration = Duration::from_secs(30);
const SUMMARY_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_median_means_steady_state() {
        let reports = |medians: &[u64]| -> Vec<WorkerProgress> {
            let report = |(second, p50_us): (u64, &u64)| WorkerProgress {
                unix_ns: second * SECOND_NS,
                p50_us: Some(*p50_us),
                ..WorkerProgress::default()
            };
            (1..).zip(medians).map(report).collect()
        };
        let steady = [90_000, 9000, 5000, 1000, 1010, 990, 1000, 1005, 1000, 995];
        assert!(is_steady(&reports(&steady), 0));
        assert!(!is_steady(&reports(&steady[..5]), 0), "still falling");
        assert!(!is_steady(&reports(&[1000; 4]), 0), "too few reports");
        assert!(
            !is_steady(&reports(&steady), 7 * SECOND_NS),
            "not under load"
        );
        assert!(!is_steady(&reports(&[0; 20]), 0), "no updates");
    }
}
