//! Measures one driver in one repetition and checks its result.

use std::time::{Duration, Instant};

use weir_drivers::{
    AssignmentMode, Consume, Consumed, Driver, ProduceCommand, Produced, ProducerState, RoundTrip,
    RoundTripped,
};
use weir_stats::run::LibrarySample;

use super::driver_set::CommandFailure;
use super::grid::{LibraryCellSpec, StartMode};
use super::host_usage::{self, PeakUsage};
use super::operation::DriverOperation;
use super::profile::Profile;
use super::runner::{RunEnd, Runner};
use super::sample::{self, CountCheck, RecordCount};

/// Result of a driver's command.
pub(super) enum DriverResult {
    Produced(Produced),
    Consumed(Consumed),
    RoundTripped(RoundTripped),
}

impl Runner<'_> {
    /// Measures one driver at one cell. The sample contains the results, or the reason why there
    /// are none.
    pub(super) fn measure(
        &mut self,
        step: usize,
        at: usize,
        topic: &str,
    ) -> Result<LibrarySample, RunEnd> {
        let cell = self.cells[step].clone();
        let mut sample = LibrarySample {
            cell: cell.name(),
            driver: self.drivers[at].name().to_owned(),
            offset_s: (self
                .clock
                .now_unix_ns()
                .saturating_sub(self.started_unix_ns)) as f64
                / 1e9,
            ..LibrarySample::default()
        };
        let pid = self.drivers[at].pid();
        self.read_host_usage();
        let since = Instant::now();
        if let Some(pid) = pid {
            host_usage::reset_peak(pid);
        }
        let (outcome, peak) = PeakUsage::during(pid.unwrap_or(0), || {
            self.run_cell(step, at, topic, cell.operation())
        });
        self.read_host_usage();
        sample.other_processes_share = self.host_usage.share(since);
        sample.noisy = sample
            .other_processes_share
            .is_some_and(|share| share > NOISY_SHARE);
        (sample.peak_rss_kb, sample.threads) = (peak.peak_rss_kb, peak.threads);
        match outcome {
            Ok(DriverResult::Produced(result)) => sample::produced(&mut sample, &cell, &result),
            Ok(DriverResult::Consumed(result)) => sample::consumed(&mut sample, &result),
            Ok(DriverResult::RoundTripped(result)) => {
                sample::round_tripped(&mut sample, &cell, &result)
            }
            Err(failed) => {
                if matches!(failed, CommandFailure::Rejected(_)) {
                    *self.rejections.entry((step, at)).or_default() += 1;
                }
                sample.invalid.push(self.failure_reason(failed)?);
                return Ok(sample);
            }
        }
        self.check_count(&cell, at, topic, &mut sample)?;
        match self.drivers[at].heap_kb(&self.env) {
            Ok(heap_kb) => sample.heap_kb = heap_kb,
            // The driver has been given up for the reason in the sample.
            Err(_) if !sample.invalid.is_empty() => {}
            Err(failed) => {
                self.failure_reason(failed)?;
            }
        }
        Ok(sample)
    }

    /// Runs the command of a cell, with the settings for its operation.
    pub(super) fn run_cell(
        &mut self,
        step: usize,
        at: usize,
        topic: &str,
        operation: DriverOperation,
    ) -> Result<DriverResult, CommandFailure> {
        let cell = &self.cells[step];
        let within = self.scaled_command_timeout(cell);
        let limit = self.env.within(within);
        let plan = self.plan;
        let handle = &mut self.drivers[at];
        let name = handle.name().to_owned();
        let settings = plan
            .profile
            .settings(&name, operation, plan.acks, self.largest);
        handle.configure(&settings, operation, &self.env)?;
        let is_legacy = plan.profile == Profile::Legacy;
        let (len, count, seed) = (cell.value_bytes, cell.records, plan.seed);
        let topic = topic.to_owned();
        match operation {
            DriverOperation::Produce => {
                let command = ProduceCommand {
                    topic,
                    len,
                    count,
                    seed,
                    state: state(cell.mode, &name),
                    per_record: is_legacy,
                };
                let produce = |driver: &mut Driver| driver.produce(&command, limit);
                handle.run(produce).map(DriverResult::Produced)
            }
            DriverOperation::Consume => {
                let command = Consume {
                    topic,
                    len,
                    count,
                    seed,
                    via: match cell.mode {
                        StartMode::Assign => AssignmentMode::Assign,
                        _ => AssignmentMode::Group,
                    },
                    verify: false,
                    commit: is_legacy,
                };
                let consume = |driver: &mut Driver| driver.consume(&command, limit);
                handle.run(consume).map(DriverResult::Consumed)
            }
            DriverOperation::RoundTrip => {
                let command = RoundTrip {
                    topic,
                    len,
                    count,
                    rate: cell.rate_per_s.unwrap_or(0) as f64,
                    seed,
                };
                let roundtrip = |driver: &mut Driver| driver.roundtrip(&command, limit);
                handle.run(roundtrip).map(DriverResult::RoundTripped)
            }
        }
    }

    /// Compares the driver's record count with the broker's. A driver that reports records that the
    /// broker does not have is given up.
    fn check_count(
        &mut self,
        cell: &LibraryCellSpec,
        at: usize,
        topic: &str,
        sample: &mut LibrarySample,
    ) -> Result<(), RunEnd> {
        if cell.operation() == DriverOperation::Consume {
            return Ok(());
        }
        let primers = u64::from(
            cell.mode == StartMode::Warm || cell.operation() == DriverOperation::RoundTrip,
        );
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
            CountCheck::Mismatch(reason) => {
                let reason = format!("impossible result at {}: {reason}", cell.name());
                sample.invalid.push(reason.clone());
                self.drivers[at].give_up(reason);
            }
        }
        Ok(())
    }

    /// With `--verify`, reads back the records of a driver's first repetition and compares every
    /// value.
    pub(super) fn verify_produced(
        &mut self,
        step: usize,
        at: usize,
        topic: &str,
        sample: &mut LibrarySample,
    ) -> Result<(), RunEnd> {
        let cell = self.cells[step].clone();
        let is_first = sample.repetition == 0 && sample.invalid.is_empty();
        if !self.plan.verify || !is_first || cell.operation() != DriverOperation::Produce {
            return Ok(());
        }
        let bad = self.verify(&cell, topic, sample.records)?;
        if bad > 0 {
            let reason = format!(
                "impossible result at {}: {bad} of {} records have other keys or values",
                cell.name(),
                sample.records
            );
            sample.invalid.push(reason.clone());
            self.drivers[at].give_up(reason);
        }
        Ok(())
    }

    /// With `--verify`, lets every driver read the topic once more and compare every value. This is
    /// not part of the results.
    pub(super) fn verify_consumers(&mut self, step: usize, topic: &str) -> Result<(), RunEnd> {
        if !self.plan.verify {
            return Ok(());
        }
        let cell = self.cells[step].clone();
        let within = self.scaled_command_timeout(&cell);
        for at in 0..self.drivers.len() {
            if !self.can_run(&self.drivers[at], step) {
                continue;
            }
            let command = Consume {
                topic: topic.to_owned(),
                len: cell.value_bytes,
                count: cell.records,
                seed: self.plan.seed,
                via: if cell.mode == StartMode::Assign {
                    AssignmentMode::Assign
                } else {
                    AssignmentMode::Group
                },
                verify: true,
                commit: false,
            };
            let limit = self.env.within(within);
            let consumed =
                self.drivers[at].run(|driver: &mut Driver| driver.consume(&command, limit));
            let Some(consumed) = self.handle_failure(consumed)? else {
                continue;
            };
            if consumed.bad > 0 {
                let (bad, got) = (consumed.bad, consumed.got);
                let reason = format!(
                    "at {}: {bad} of {got} records differ from those written",
                    cell.name()
                );
                self.drivers[at].give_up(reason);
            }
        }
        Ok(())
    }

    /// Returns `None` after a failure of the driver, and an error if the run must end: an
    /// interruption, or a broker that does not respond.
    pub(super) fn handle_failure<T>(
        &mut self,
        result: Result<T, CommandFailure>,
    ) -> Result<Option<T>, RunEnd> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(failed) => self.failure_reason(failed).map(|_| None),
        }
    }

    /// Returns the reason of a failure, or an error if the run must end.
    fn failure_reason(&mut self, failed: CommandFailure) -> Result<String, RunEnd> {
        match failed {
            CommandFailure::Interrupted => Err(RunEnd::Interrupted),
            CommandFailure::Rejected(reason) => Ok(reason),
            CommandFailure::GivenUp(reason) => {
                self.check_broker()?;
                Ok(reason)
            }
        }
    }
}

/// Returns the start state of the producer in a cell; some modes depend on the driver.
fn state(mode: StartMode, driver: &str) -> ProducerState {
    match mode {
        StartMode::Warm => ProducerState::Warm,
        StartMode::Metadata => ProducerState::Metadata,
        StartMode::Cold => ProducerState::Cold,
        _ => Profile::legacy_state(driver),
    }
}

/// Share of the machine.
const NOISY_SHARE: f64 = 0.10;
const UNACKED_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
