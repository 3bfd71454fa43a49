//! Measures one driver in one repetition and checks its result.

use std::time::{Duration, Instant};

use weir_drivers::host_usage::{self, PeakUsage};
use weir_drivers::{
    AssignmentMode, Consume, CopyTopic, GetStats, ProduceCommand, ProducerState, RoundTrip,
};
use weir_stats::run::LibrarySample;

use super::grid::{LibraryCellSpec, StartMode};
use super::profile::{DriverOperation, Profile};
use super::run_end::{CommandFailure, CommandResult, RunResult};
use super::runner::Runner;
use super::sample::{self, CountCheck, RecordCount};

impl Runner<'_> {
    /// Measures one driver at one cell. The sample contains the results, or the reason why there
    /// are none.
    pub(super) fn measure(
        &mut self,
        step: usize,
        at: usize,
        topic: &str,
    ) -> RunResult<LibrarySample> {
        let spec = self.cells[step].clone();
        let mut sample = LibrarySample {
            cell: spec.cell.name.clone(),
            driver: self.drivers[at].name().to_owned(),
            offset_s: self.run_dir.elapsed_s(),
            ..LibrarySample::default()
        };
        let pid = self.drivers[at].pid();
        self.read_host_usage();
        let since = Instant::now();
        if let Some(pid) = pid {
            host_usage::reset_peak(pid);
        }
        let wire_before = self.host_usage.wire_bytes();
        let (outcome, peak) = PeakUsage::during(pid.unwrap_or(0), || {
            self.run_cell(step, at, topic, spec.operation(), &mut sample)
        });
        let wire = self.host_usage.wire_bytes().zip(wire_before);
        sample.wire_bytes = wire.and_then(|(after, before)| after.checked_sub(before));
        self.read_host_usage();
        sample.other_processes_share = self.host_usage.share(since);
        sample.noisy = sample.other_processes_share > Some(NOISY_SHARE);
        (sample.peak_rss_kb, sample.threads) = (peak.peak_rss_kb, peak.threads);
        if let Err(failure) = outcome? {
            if matches!(failure, CommandFailure::Rejected(_)) {
                *self.rejections.entry((step, at)).or_default() += 1;
            }
            sample.invalid.push(failure.into_reason());
            return Ok(sample);
        }
        self.check_count(&spec, at, topic, &mut sample)?;
        if self.drivers[at].pid().is_some() {
            let stats = self.command(at, &GetStats {}, self.plan.command_timeout)?;
            sample.heap_kb = stats.ok().and_then(|stats| stats.heap_kb);
        }
        Ok(sample)
    }

    /// Runs the command of a cell, with the settings for its operation, and sets its results.
    pub(super) fn run_cell(
        &mut self,
        step: usize,
        at: usize,
        topic: &str,
        operation: DriverOperation,
        sample: &mut LibrarySample,
    ) -> CommandResult {
        if let Err(failure) = self.configure(at, operation)? {
            return Ok(Err(failure));
        }
        let spec = &self.cells[step];
        let mode = spec.mode;
        let within = self.scaled_command_timeout(spec);
        let is_legacy = self.plan.profile == Profile::Legacy;
        let burst = spec.burst(topic, self.plan.seed);
        Ok(match operation {
            DriverOperation::Produce => {
                let request = ProduceCommand {
                    burst,
                    state: match mode {
                        StartMode::Warm => ProducerState::Warm,
                        StartMode::Metadata => ProducerState::Metadata,
                        StartMode::Cold => ProducerState::Cold,
                        _ => Profile::legacy_state(&self.drivers[at].about.library),
                    },
                    per_record: is_legacy,
                };
                let result = self.command(at, &request, within)?;
                result.map(|result| sample::produced(sample, &request, result))
            }
            DriverOperation::Consume => {
                let request = Consume {
                    burst,
                    via: via(mode),
                    verify: false,
                    commit: is_legacy,
                };
                let result = self.command(at, &request, within)?;
                result.map(|result| sample::consumed(sample, &result))
            }
            DriverOperation::Copy => {
                let request = CopyTopic {
                    burst: spec.burst(&self.names.shared(spec), self.plan.seed),
                    to: topic.to_owned(),
                    via: via(mode),
                };
                let result = self.command(at, &request, within)?;
                result.map(|result| sample::copied(sample, &request, &result))
            }
            DriverOperation::RoundTrip => {
                let rate = spec.cell.rate_per_s.unwrap_or(0.0);
                let request = RoundTrip { burst, rate };
                let result = self.command(at, &request, within)?;
                result.map(|result| sample::round_tripped(sample, &request, result))
            }
        })
    }

    /// Compares the driver's record count with the broker's. A driver that reports records that the
    /// broker does not have is given up.
    fn check_count(
        &mut self,
        spec: &LibraryCellSpec,
        at: usize,
        topic: &str,
        sample: &mut LibrarySample,
    ) -> RunResult {
        let primers = match spec.operation() {
            DriverOperation::Consume => return Ok(()),
            DriverOperation::Produce => u64::from(spec.mode == StartMode::Warm),
            DriverOperation::Copy | DriverOperation::RoundTrip => 1,
        };
        let mut count = RecordCount {
            acked: sample.records,
            failed: sample.failed,
            primers,
            end: 0,
        };
        let deadline = Instant::now() + UNACKED_TIMEOUT;
        loop {
            match self.broker.admin.end_offset(topic, 0) {
                Ok(end) => count.end = end,
                Err(error) => {
                    sample.invalid.push(error.to_string());
                    return self.check_broker();
                }
            }
            // Without acknowledgements, records may still be in flight.
            let is_late = self.plan.acks != 0 || Instant::now() >= deadline;
            if is_late || count.end >= count.acked + primers {
                break;
            }
            self.check_stop()?;
            std::thread::sleep(POLL_INTERVAL);
        }
        let may_retry = self.plan.profile == Profile::DefaultSettings;
        match count.check(self.plan.acks, may_retry) {
            CountCheck::Match => {}
            CountCheck::Invalid(reason) => sample.invalid.push(reason),
            CountCheck::Mismatch(reason) => self.reject_result(at, sample, &reason),
        }
        Ok(())
    }

    /// Gives up a driver whose result is impossible.
    fn reject_result(&mut self, at: usize, sample: &mut LibrarySample, reason: &str) {
        let reason = format!("impossible result at {}: {reason}", sample.cell);
        sample.invalid.push(reason.clone());
        self.drivers[at].give_up(reason);
    }

    /// With `--verify`, reads back the records of a driver's first repetition and compares every
    /// value.
    pub(super) fn verify_produced(
        &mut self,
        step: usize,
        at: usize,
        topic: &str,
        sample: &mut LibrarySample,
    ) -> RunResult {
        let spec = self.cells[step].clone();
        let is_first = sample.repetition == 0 && sample.invalid.is_empty();
        let writes = matches!(
            spec.operation(),
            DriverOperation::Produce | DriverOperation::Copy
        );
        if self.plan.verify && is_first && writes {
            let (all, bad) = (sample.records, self.verify(&spec, topic, sample.records)?);
            if bad > 0 {
                let reason = format!("{bad} of {all} records have other keys or values");
                self.reject_result(at, sample, &reason);
            }
        }
        Ok(())
    }

    /// With `--verify`, lets every driver read the topic once more and compare every value. This is
    /// not part of the results.
    pub(super) fn verify_consumers(&mut self, step: usize, topic: &str) -> RunResult {
        let spec = self.cells[step].clone();
        let within = self.scaled_command_timeout(&spec);
        let request = Consume {
            burst: spec.burst(topic, self.plan.seed),
            via: via(spec.mode),
            verify: true,
            commit: false,
        };
        for at in 0..self.drivers.len() {
            if !self.plan.verify || !self.can_run(&self.drivers[at], step) {
                continue;
            }
            let Ok(consumed) = self.command(at, &request, within)? else {
                continue;
            };
            if consumed.bad > 0 {
                self.drivers[at].give_up(format!(
                    "at {}: {} of {} records differ from those written",
                    spec.cell.name, consumed.bad, consumed.got
                ));
            }
        }
        Ok(())
    }
}

fn via(mode: StartMode) -> AssignmentMode {
    match mode {
        StartMode::Assign | StartMode::CopyAssign => AssignmentMode::Assign,
        _ => AssignmentMode::Group,
    }
}

/// Share of the machine.
const NOISY_SHARE: f64 = 0.10;
const UNACKED_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
