//! Load phases of a cell: warm-up, measured window, drain, and the result.

use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_engine::clock;
use weir_stats::run::Cell;
use weir_stats::steady_state;

use super::super::cell_clocks;
use super::super::child::ProcessRole;
use super::super::gateway;
use super::super::observer::{Live, Observer};
use super::super::processes::POLL_INTERVAL;
use super::super::result::{self, Measured, MeasuredWindow};
use super::super::workers::receiving_role;
use super::RunningCell;
use super::live::{self, SECOND_NS};
use crate::experiment::turns::{CellFailure, CellResult};
use weir_load::clock::nanos;
use weir_load::worker::protocol::{WorkerCommand, WorkerProgress};

impl RunningCell<'_> {
    /// Runs the cell from the creation of its topic until all deliveries have settled.
    pub(super) fn measure(&mut self, observer: &mut dyn Observer) -> CellResult<MeasuredWindow> {
        self.prepare_topic()?;
        let server = self.start_server(observer)?;
        self.start_receivers(server.as_deref(), observer)?;
        self.start_probe(server.as_deref(), observer)?;
        self.start_producers(observer)?;
        let plan = self.context.plan;
        // The window is the latest that the plan allows; it moves forward when the load reaches a
        // steady state.
        let warm_up = plan.warm_up.max(plan.warm_up_max);
        let mut window = MeasuredWindow::after(self.processes.now_unix_ns(), warm_up, plan.hold);
        self.announce(&window);
        self.load(&mut window, observer)?;
        self.settle(&window, observer)?;
        self.bound_clocks(&window)?;
        Ok(window)
    }

    /// Sends the schedule of `window` to all workers. The producers continue a little past the
    /// window, so that its last records are delivered under load.
    fn announce(&mut self, window: &MeasuredWindow) {
        let producers_stop = window.until_unix_ns + nanos(TAIL);
        // Receivers stop on a command; this is the limit if this process has exited.
        let abandoned = nanos(self.context.plan.drain) + nanos(ABANDONED_TIMEOUT);
        for process in &mut self.processes.running {
            let stop_unix_ns = match process.role.produces() {
                true => producers_stop,
                false => producers_stop + abandoned,
            };
            process.send(&WorkerCommand::Start(window.schedule(stop_unix_ns)));
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
        let reports = self.processes.collected.progress.get(&receiving);
        if !is_steady(reports.map_or(&[], Vec::as_slice), window.start_unix_ns) {
            return;
        }
        window.from_unix_ns = from_unix_ns;
        window.until_unix_ns = from_unix_ns + nanos(self.context.plan.hold);
        self.announce(window);
    }

    /// Samples usage and reports progress until the window and its tail are over. An interruption
    /// inside the window ends the window; an earlier one aborts the cell.
    fn load(&mut self, window: &mut MeasuredWindow, observer: &mut dyn Observer) -> CellResult {
        let mut next_unix_ns = window.start_unix_ns;
        loop {
            let end_unix_ns = window.until_unix_ns + nanos(TAIL);
            let now_unix_ns = self.processes.now_unix_ns();
            if now_unix_ns >= end_unix_ns {
                return Ok(());
            }
            if self.context.run.run_dir.is_stopped() {
                return self.cut(window, now_unix_ns);
            }
            self.processes.check_alive()?;
            if now_unix_ns >= next_unix_ns {
                self.processes.usage.read(now_unix_ns);
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
            let pause = Duration::from_nanos(pause_ns).min(POLL_INTERVAL);
            self.processes.receive(pause);
        }
    }

    fn cut(&mut self, window: &mut MeasuredWindow, now_unix_ns: u64) -> CellResult {
        if now_unix_ns <= window.from_unix_ns {
            return Err(CellFailure::Interrupted);
        }
        self.processes.usage.read(now_unix_ns);
        self.scrape_gateway(None);
        if now_unix_ns < window.until_unix_ns {
            window.until_unix_ns = now_unix_ns;
            window.interrupted = true;
        }
        Ok(())
    }

    /// Waits for the producers' ledger, lets the receivers settle against it, and ends all
    /// processes.
    fn settle(&mut self, window: &MeasuredWindow, observer: &mut dyn Observer) -> CellResult {
        let running = self.processes.running.iter().map(|process| process.role);
        let producers: Vec<ProcessRole> = running.filter(|role| role.produces()).collect();
        for role in producers {
            if window.interrupted {
                self.processes.send(role, &WorkerCommand::Stop);
            }
            self.processes.wait_final(role, PRODUCE_SUMMARY_TIMEOUT)?;
        }
        let receiving = receiving_role(self.spec.architecture);
        let entries = self.processes.collected.ledger();
        let ledger = WorkerCommand::Ledger { entries };
        self.processes.send(receiving, &ledger);
        observer.live(&self.live("drain", window.load_s()));
        let drain = self.context.plan.drain;
        if self.processes.wait_final(receiving, drain).is_err() {
            self.processes.check_alive()?;
            self.processes.send(receiving, &WorkerCommand::Stop);
            self.processes.wait_final(receiving, SUMMARY_TIMEOUT)?;
        }
        self.scrape_gateway(Some("gateway-metrics.txt"));
        self.processes.end();
        Ok(())
    }

    /// Waits for the exchanges after the window, and sets the bound of the clocks of all machines.
    fn bound_clocks(&mut self, window: &MeasuredWindow) -> CellResult {
        let run_dir = self.context.run.run_dir;
        let machines = run_dir.options.machines.as_deref();
        let end_unix_ns = window.until_unix_ns + nanos(clock::LEAD);
        while machines.is_some() && self.processes.now_unix_ns() < end_unix_ns {
            std::thread::sleep(POLL_INTERVAL);
        }
        let span = (window.from_unix_ns, window.until_unix_ns);
        self.clock_bound_ns = self.processes.clocks.bound_ns(machines, span)?;
        if let Some(bound_ns) = self.clock_bound_ns {
            run_dir
                .clock_bound_ns
                .fetch_max(bound_ns, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Reads the gateway's counters, and writes the complete response to `file` if given.
    fn scrape_gateway(&mut self, file: Option<&str>) {
        let Some(gateway) = &self.gateway else { return };
        let unix_ns = self.processes.now_unix_ns();
        let written = gateway.metrics().and_then(|metrics| {
            let progress = &mut self.processes.collected.progress;
            let reports = progress.entry(ProcessRole::Gateway).or_default();
            reports.push(WorkerProgress {
                unix_ns,
                counters: gateway::counters(&metrics),
                ..WorkerProgress::default()
            });
            let path = file.map(|file| self.processes.dir.join(file));
            path.map_or(Ok(()), |path| std::fs::write(path, metrics))
        });
        if let Err(error) = written {
            let note = format!("reading the gateway's metrics failed: {error}");
            self.notes.push(note);
        }
    }

    fn live(&self, phase: &'static str, elapsed_s: f64) -> Live {
        let (plan, spec) = (self.context.plan, self.spec);
        live::live(plan, spec, &self.processes, phase, elapsed_s)
    }

    pub(super) fn result(self, cell: &mut Cell, window: &MeasuredWindow) {
        let measured = Measured {
            plan: self.context.plan,
            receiving: receiving_role(self.spec.architecture),
            collected: &self.processes.collected,
            usage: &self.processes.usage,
        };
        result::build(cell, window, measured);
        cell.notes.extend(self.notes);
        if let Some(bound_ns) = self.clock_bound_ns {
            cell_clocks::check(cell, bound_ns);
        }
        let ledger = self.processes.collected.ledger();
        cell.probe = self.probe.map(|probe| probe.finish(window, &ledger));
        cell.hlog_file = Some(self.processes.hlog_name);
    }
}

/// Returns `true` if the median response time has reached a steady state. Ignores the first report,
/// which includes the time before the load.
fn is_steady(reports: &[WorkerProgress], start_unix_ns: u64) -> bool {
    let from_unix_ns = start_unix_ns + SECOND_NS;
    let whole = reports
        .iter()
        .filter(|report| report.unix_ns >= from_unix_ns);
    let medians = whole.filter_map(|report| report.p50_us.filter(|us| *us > 0));
    let medians: Vec<f64> = medians.map(|us| us as f64).collect();
    steady_state::warm_up_len(&medians).is_some()
}

/// Time for a moved window to reach all workers, including busy ones.
const MOVE_DELAY: Duration = Duration::from_secs(1);
const TAIL: Duration = Duration::from_millis(500);
const ABANDONED_TIMEOUT: Duration = Duration::from_secs(60);
const PRODUCE_SUMMARY_TIMEOUT: Duration = Duration::from_secs(30);
const SUMMARY_TIMEOUT: Duration = Duration::from_secs(20);
