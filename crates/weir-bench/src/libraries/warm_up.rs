//! Warm-up of the broker and the drivers before the first cell.

use weir_drivers::{AssignmentMode, Consume, Driver, DriverProgram, ProduceCommand, ProducerState};

use super::super::Observer;
use super::driver_set::CommandFailure;
use super::grid::LibraryCellSpec;
use super::operation::DriverOperation;
use super::profile::{Largest, Profile};
use super::runner::{RunEnd, Runner};

impl Runner<'_> {
    /// Puts load on the broker with the helper driver. A Java broker is slow in its first seconds,
    /// and it creates the topic of group offsets with the first group.
    pub(super) fn warm_up_broker(&mut self, observer: &mut dyn Observer) -> Result<(), RunEnd> {
        let plan = self.plan.warm_up;
        if plan.records == 0 {
            return Ok(());
        }
        observer.note("warming up the broker");
        for round in 0..BROKER_ROUNDS {
            let topic = format!("{}-broker-{round}", self.warm_up_prefix());
            let spec = self.warm_up_spec();
            self.with_topic(&topic, &spec, |runner| {
                let mut helper = runner.helper(spec.value_bytes, spec.records)?;
                runner.write(&mut helper, &topic, &spec)?;
                let command = Consume {
                    topic: topic.clone(),
                    len: spec.value_bytes,
                    count: spec.records,
                    seed: runner.plan.seed,
                    via: AssignmentMode::Group,
                    verify: false,
                    commit: true,
                };
                let limit = runner.env.within(runner.scaled_command_timeout(&spec));
                helper
                    .consume(&command, limit)
                    .map_err(|error| runner.helper_failed(&error))?;
                let _ = helper.bye();
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Runs warm-up rounds with every driver until its CPU time per record is steady.
    pub(super) fn warm_up(&mut self, observer: &mut dyn Observer) -> Result<(), RunEnd> {
        let plan = self.plan.warm_up;
        if plan.records == 0 || !self.plan.profile.has_warm_up() {
            return Ok(());
        }
        let spec = self.warm_up_spec();
        for at in 0..self.drivers.len() {
            let mut costs: Vec<f64> = Vec::new();
            while self.drivers[at].pid().is_some() && !is_warm(&costs, &plan) {
                if costs.len() >= plan.rounds_max as usize {
                    break;
                }
                let name = self.drivers[at].name().to_owned();
                let topic = format!("{}-{name}-{}", self.warm_up_prefix(), costs.len());
                let cost = self.with_topic(&topic, &spec, |runner| {
                    let limit = runner.scaled_command_timeout(&spec);
                    let seed = runner.plan.seed;
                    let reported =
                        runner.drivers[at].warm_up(&topic, &plan, seed, limit, &runner.env);
                    match reported {
                        Ok(cost) => Ok(Some(cost)),
                        Err(CommandFailure::Interrupted) => Err(RunEnd::Interrupted),
                        Err(CommandFailure::GivenUp(_)) => runner.check_broker().map(|()| None),
                        Err(CommandFailure::Rejected(reason)) => {
                            runner.drivers[at].give_up(reason);
                            runner.check_broker().map(|()| None)
                        }
                    }
                })?;
                costs.extend(cost);
            }
            let about = &mut self.drivers[at].about;
            about.warm_up_rounds = u32::try_from(costs.len()).unwrap_or(u32::MAX);
            about.warm_up_settled = is_warm(&costs, &plan);
            let text = match (&about.failed, about.warm_up_settled) {
                (Some(reason), _) => format!("{}: {reason}", about.name),
                (None, true) => format!("{}: warm after {} rounds", about.name, costs.len()),
                (None, false) => {
                    format!(
                        "{}: CPU time per record is not steady after {} rounds",
                        about.name,
                        costs.len()
                    )
                }
            };
            observer.note(&text);
        }
        Ok(())
    }

    /// Fills a topic with the helper driver. All libraries then read the same batches, and none
    /// reads the batches of its own producer.
    pub(super) fn fill(&mut self, cell: &LibraryCellSpec, topic: &str) -> Result<(), RunEnd> {
        let mut helper = self.helper(cell.value_bytes, cell.records)?;
        self.write(&mut helper, topic, cell)?;
        let _ = helper.bye();
        let end = self
            .broker
            .admin
            .end_offset(topic, 0)
            .map_err(RunEnd::admin)?;
        match end == cell.records {
            true => Ok(()),
            false => Err(RunEnd::Instrument(format!(
                "topic \"{topic}\" has {end} records after filling, expected {}",
                cell.records
            ))),
        }
    }

    /// Reads a topic back, compares every value and returns the number of wrong records.
    pub(super) fn verify(
        &mut self,
        cell: &LibraryCellSpec,
        topic: &str,
        records: u64,
    ) -> Result<u64, RunEnd> {
        let mut helper = self.helper(cell.value_bytes, cell.records)?;
        let command = Consume {
            topic: topic.to_owned(),
            len: cell.value_bytes,
            count: records,
            seed: self.plan.seed,
            via: AssignmentMode::Assign,
            verify: true,
            commit: false,
        };
        let limit = self.env.within(self.scaled_command_timeout(cell));
        let consumed = helper
            .consume(&command, limit)
            .map_err(|error| self.helper_failed(&error))?;
        let _ = helper.bye();
        Ok(consumed.bad)
    }

    /// Starts the helper driver with the settings of the profile fair.
    fn helper(&mut self, value_bytes: u64, records: u64) -> Result<Driver, RunEnd> {
        let largest = Largest {
            value_bytes,
            records,
            bytes: records.saturating_mul(value_bytes + 8),
        };
        let program = DriverProgram::built_in(self.exe).renamed(HELPER);
        let limit = self.env.within(self.env.timeout);
        let started = Driver::start(&program, &self.drivers_dir, limit);
        let mut helper = started.map_err(|error| self.helper_failed(&error))?;
        let command = weir_drivers::Configure {
            bootstrap: self.env.bootstrap.to_owned(),
            profile: HELPER.to_owned(),
            settings: Profile::Fair.settings(HELPER, DriverOperation::Produce, 1, largest),
        };
        let configured = helper.configure(&command, limit);
        configured.map_err(|error| self.helper_failed(&error))?;
        Ok(helper)
    }

    fn write(
        &mut self,
        helper: &mut Driver,
        topic: &str,
        cell: &LibraryCellSpec,
    ) -> Result<(), RunEnd> {
        let command = ProduceCommand {
            topic: topic.to_owned(),
            len: cell.value_bytes,
            count: cell.records,
            seed: self.plan.seed,
            state: ProducerState::Metadata,
            per_record: false,
        };
        let limit = self.env.within(self.scaled_command_timeout(cell));
        let produced = helper
            .produce(&command, limit)
            .map_err(|error| self.helper_failed(&error))?;
        match produced.failed {
            0 => Ok(()),
            failed => Err(RunEnd::Instrument(format!(
                "writing {failed} records to topic \"{topic}\" failed: {}",
                produced
                    .errors
                    .first()
                    .map_or("no reason given", String::as_str)
            ))),
        }
    }

    fn helper_failed(&self, error: &weir_drivers::DriverError) -> RunEnd {
        match error.reason {
            weir_drivers::DriverFailure::Interrupted => RunEnd::Interrupted,
            _ => RunEnd::Instrument(error.to_string()),
        }
    }

    /// Creates a topic, calls `work` and deletes the topic, even after an error.
    fn with_topic<T>(
        &mut self,
        topic: &str,
        cell: &LibraryCellSpec,
        work: impl FnOnce(&mut Self) -> Result<T, RunEnd>,
    ) -> Result<T, RunEnd> {
        let each = cell.disk_bytes();
        if self.disk.capacity(each, 1, self.env.stop).topics == 0 {
            return Err(RunEnd::Instrument(format!(
                "no disk space for {:.0} MB of warm-up: raise --disk-cap or reduce warm_up.records",
                each as f64 / 1e6
            )));
        }
        let topics = [topic.to_owned()];
        self.create(&topics, cell)?;
        let result = work(self);
        self.delete(&topics, cell);
        result
    }

    fn warm_up_spec(&self) -> LibraryCellSpec {
        LibraryCellSpec {
            mode: super::grid::StartMode::Warm,
            value_bytes: self.plan.warm_up.value_bytes,
            // Not counting the primer.
            records: self.plan.warm_up.records,
            rate_per_s: None,
            repetitions: 1,
            skipped: None,
        }
    }

    fn warm_up_prefix(&self) -> String {
        let id = std::process::id();
        format!("{}-warm-up-{}-{id}", self.plan.topic_prefix, self.run_id)
    }
}

/// Returns `true` if there were enough rounds and the last two differ little.
fn is_warm(costs: &[f64], plan: &super::plan::WarmUpPlan) -> bool {
    let [.., before, last] = costs else {
        return false;
    };
    let differs = (last - before).abs() / before.max(f64::MIN_POSITIVE);
    costs.len() >= plan.rounds_min as usize && differs < plan.within_share
}

/// Name of the internal driver that is not measured; also of its files.
pub(super) const HELPER: &str = "helper";
const BROKER_ROUNDS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::super::plan::LibrariesPlan;
    use super::*;

    #[test]
    fn similar_consecutive_rounds_mean_warm() {
        let plan = LibrariesPlan::built_in().unwrap().warm_up;
        assert!(!is_warm(&[], &plan) && !is_warm(&[5.0, 5.0, 5.0], &plan));
        assert!(is_warm(&[90.0, 20.0, 10.0, 9.5], &plan));
        assert!(!is_warm(&[90.0, 20.0, 10.0, 8.9], &plan));
        assert!(!is_warm(&[0.0, 0.0, 0.0, 3.0], &plan));
        assert!(is_warm(&[9.0, 7.0, 5.0, 4.0, 4.1], &plan));
    }
}
