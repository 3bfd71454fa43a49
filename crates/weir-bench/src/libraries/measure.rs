//! What one driver does in one repetition, and whether it can be believed.

use std::time::{Duration, Instant};

use weir_drivers::{
    AssignmentMode, Consume, Consumed, Driver, ProduceCommand, Produced, ProducerState, RoundTrip,
    RoundTripped,
};
use weir_stats::run::LibrarySample;

use super::driver_set::Failed;
use super::grid::{DriverOperation, LibraryCellSpec, StartMode};
use super::others::{self, PeakUsage};
use super::profile::Profile;
use super::runner::{RunEnd, Runner};
use super::sample::{self, CountCheck, RecordCount};

/// What a driver has told.
pub(super) enum DriverResult {
    Produced(Produced),
    Consumed(Consumed),
    RoundTripped(RoundTripped),
}

impl Runner<'_> {
    /// One driver at one cell: its figures, or why there are none.
    pub(super) fn measure(
        &mut self,
        step: usize,
        at: usize,
        topic: &str,
    ) -> Result<LibrarySample, RunEnd> {
        let cell = self.cells[step].clone();
        let mut sample = LibrarySample {
            cell: cell.name(),
            driver: self.crew[at].name().to_owned(),
            at_s: (self
                .clock
                .now_unix_ns()
                .saturating_sub(self.started_unix_ns)) as f64
                / 1e9,
            ..LibrarySample::default()
        };
        let pid = self.crew[at].pid();
        self.read_others();
        let since = Instant::now();
        if let Some(pid) = pid {
            others::reset_peak(pid);
        }
        let (told, held) =
            PeakUsage::during(pid.unwrap_or(0), || self.ask(step, at, topic, cell.work()));
        self.read_others();
        sample.others_share = self.others.share(since);
        sample.noisy = sample.others_share.is_some_and(|share| share > NOISY_SHARE);
        (sample.peak_rss_kb, sample.threads) = (held.peak_rss_kb, held.threads);
        match told {
            Ok(DriverResult::Produced(told)) => sample::produced(&mut sample, &cell, &told),
            Ok(DriverResult::Consumed(told)) => sample::consumed(&mut sample, &told),
            Ok(DriverResult::RoundTripped(told)) => {
                sample::round_tripped(&mut sample, &cell, &told)
            }
            Err(failed) => {
                if matches!(failed, Failed::Refused(_)) {
                    *self.refusals.entry((step, at)).or_default() += 1;
                }
                sample.invalid.push(self.failure_reason(failed)?);
                return Ok(sample);
            }
        }
        self.check_count(&cell, at, topic, &mut sample)?;
        match self.crew[at].heap_kb(&self.reach) {
            Ok(heap_kb) => sample.heap_kb = heap_kb,
            // It has been given up already, for what it said.
            Err(_) if !sample.invalid.is_empty() => {}
            Err(failed) => {
                self.failure_reason(failed)?;
            }
        }
        Ok(sample)
    }

    /// Sends the command of a cell, with the settings for its kind of work.
    pub(super) fn ask(
        &mut self,
        step: usize,
        at: usize,
        topic: &str,
        work: DriverOperation,
    ) -> Result<DriverResult, Failed> {
        let cell = &self.cells[step];
        let within = self.scaled_command_timeout(cell);
        let limit = self.reach.within(within);
        let plan = self.plan;
        let member = &mut self.crew[at];
        let name = member.name().to_owned();
        let settings = plan.profile.settings(&name, work, plan.acks, self.largest);
        member.configure(&settings, work, &self.reach)?;
        let is_legacy = plan.profile == Profile::Legacy;
        let (len, count, seed) = (cell.value_bytes, cell.records, plan.seed);
        let topic = topic.to_owned();
        match work {
            DriverOperation::Produce => {
                let command = ProduceCommand {
                    topic,
                    len,
                    count,
                    seed,
                    state: state(cell.mode, &name),
                    per_record: is_legacy,
                };
                let told = |driver: &mut Driver| driver.produce(&command, limit);
                member.ask(told).map(DriverResult::Produced)
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
                let told = |driver: &mut Driver| driver.consume(&command, limit);
                member.ask(told).map(DriverResult::Consumed)
            }
            DriverOperation::RoundTrip => {
                let command = RoundTrip {
                    topic,
                    len,
                    count,
                    rate: cell.rate_per_s.unwrap_or(0) as f64,
                    seed,
                };
                let told = |driver: &mut Driver| driver.roundtrip(&command, limit);
                member.ask(told).map(DriverResult::RoundTripped)
            }
        }
    }

    /// Asks the broker what it has: a driver that counts what is not there is given up.
    fn check_count(
        &mut self,
        cell: &LibraryCellSpec,
        at: usize,
        topic: &str,
        sample: &mut LibrarySample,
    ) -> Result<(), RunEnd> {
        if cell.work() == DriverOperation::Consume {
            return Ok(());
        }
        let primers =
            u64::from(cell.mode == StartMode::Warm || cell.work() == DriverOperation::RoundTrip);
        let mut count = RecordCount {
            acked: sample.records,
            failed: sample.failed,
            primers,
            end: 0,
        };
        let deadline = Instant::now() + UNACKED_WITHIN;
        loop {
            match self.broker.admin.end_offset(topic, 0) {
                Ok(end) => count.end = end,
                Err(error) => {
                    sample.invalid.push(error.to_string());
                    return self.broker_lives();
                }
            }
            // Without acknowledgements records are still on their way.
            let is_late = self.plan.acks != 0 || Instant::now() >= deadline;
            if is_late || count.end >= count.acked + primers {
                break;
            }
            self.check_stop()?;
            std::thread::sleep(LOOK);
        }
        let may_retry = self.plan.profile == Profile::DefaultSettings;
        match count.check(self.plan.acks, may_retry) {
            CountCheck::True => {}
            CountCheck::Invalid(why) => sample.invalid.push(why),
            CountCheck::Lied(why) => {
                let why = format!("lied at {}: {why}", cell.name());
                sample.invalid.push(why.clone());
                self.crew[at].give_up(why);
            }
        }
        Ok(())
    }

    /// With `--verify`: what a driver wrote first is read back, value by value.
    pub(super) fn verify_produced(
        &mut self,
        step: usize,
        at: usize,
        topic: &str,
        sample: &mut LibrarySample,
    ) -> Result<(), RunEnd> {
        let cell = self.cells[step].clone();
        let is_first = sample.repetition == 0 && sample.invalid.is_empty();
        if !self.plan.verify || !is_first || cell.work() != DriverOperation::Produce {
            return Ok(());
        }
        let bad = self.verify(&cell, topic, sample.records)?;
        if bad > 0 {
            let why = format!(
                "{bad} of {} records have other keys or values",
                sample.records
            );
            let why = format!("lied at {}: {why}", cell.name());
            sample.invalid.push(why.clone());
            self.crew[at].give_up(why);
        }
        Ok(())
    }

    /// With `--verify`: every driver reads what is to be read once more, value by value; that is not among the figures.
    pub(super) fn verify_consumers(&mut self, step: usize, topic: &str) -> Result<(), RunEnd> {
        if !self.plan.verify {
            return Ok(());
        }
        let cell = self.cells[step].clone();
        let within = self.scaled_command_timeout(&cell);
        for at in 0..self.crew.len() {
            if !self.can(&self.crew[at], step) {
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
            let limit = self.reach.within(within);
            let told = self.crew[at].ask(|driver: &mut Driver| driver.consume(&command, limit));
            let Some(told) = self.handle_failure(told)? else {
                continue;
            };
            if told.bad > 0 {
                let (bad, got) = (told.bad, told.got);
                let why = format!(
                    "at {}: {bad} of {got} records were not read as written",
                    cell.name()
                );
                self.crew[at].give_up(why);
            }
        }
        Ok(())
    }

    /// What a driver did not do is its own fault, unless the broker is gone; an interruption ends all.
    pub(super) fn handle_failure<T>(
        &mut self,
        result: Result<T, Failed>,
    ) -> Result<Option<T>, RunEnd> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(failed) => self.failure_reason(failed).map(|_| None),
        }
    }

    /// Why, in words.
    fn failure_reason(&mut self, failed: Failed) -> Result<String, RunEnd> {
        match failed {
            Failed::Interrupted => Err(RunEnd::Interrupted),
            Failed::Refused(why) => Ok(why),
            Failed::GivenUp(why) => {
                self.broker_lives()?;
                Ok(why)
            }
        }
    }
}

/// The start of the producer in a cell; where a profile leaves it to the library, by its name.
fn state(mode: StartMode, driver: &str) -> ProducerState {
    match mode {
        StartMode::Warm => ProducerState::Warm,
        StartMode::Metadata => ProducerState::Metadata,
        StartMode::Cold => ProducerState::Cold,
        _ => Profile::legacy_state(driver),
    }
}

/// Of the machine.
const NOISY_SHARE: f64 = 0.10;
const UNACKED_WITHIN: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(20);
