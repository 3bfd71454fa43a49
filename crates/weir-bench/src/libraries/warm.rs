//! Before anything is measured: a broker that has done this before, and drivers whose cost has settled.

use weir_drivers::{AssignmentMode, Consume, Driver, DriverProgram, ProduceCommand, ProducerState};

use super::super::Observer;
use super::driver_set::Failed;
use super::grid::{DriverOperation, LibraryCellSpec};
use super::profile::{Largest, Profile};
use super::runner::{RunEnd, Runner};

impl Runner<'_> {
    /// A Java broker is slow in its first seconds, and makes the topic of group offsets when the first group comes: both
    /// happen to a driver of our own that takes no part.
    pub(super) fn preheat(&mut self, observer: &mut dyn Observer) -> Result<(), RunEnd> {
        let plan = self.plan.warm_up;
        if plan.records == 0 {
            return Ok(());
        }
        observer.note("warming the broker up");
        for round in 0..PREHEAT_ROUNDS {
            let topic = format!("{}-preheat-{round}", self.warm_up_prefix());
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
                let limit = runner.reach.within(runner.scaled_command_timeout(&spec));
                helper
                    .consume(&command, limit)
                    .map_err(|error| runner.helper_failed(&error))?;
                let _ = helper.bye();
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Rounds until the last two cost alike.
    pub(super) fn warm_up(&mut self, observer: &mut dyn Observer) -> Result<(), RunEnd> {
        let plan = self.plan.warm_up;
        if plan.records == 0 || !self.plan.profile.warms_up() {
            return Ok(());
        }
        let spec = self.warm_up_spec();
        for at in 0..self.crew.len() {
            let mut costs: Vec<f64> = Vec::new();
            while self.crew[at].pid().is_some() && !is_warm(&costs, &plan) {
                if costs.len() >= plan.rounds_max as usize {
                    break;
                }
                let name = self.crew[at].name().to_owned();
                let topic = format!("{}-{name}-{}", self.warm_up_prefix(), costs.len());
                let cost = self.with_topic(&topic, &spec, |runner| {
                    let limit = runner.scaled_command_timeout(&spec);
                    let seed = runner.plan.seed;
                    let told = runner.crew[at].warm_up(&topic, &plan, seed, limit, &runner.reach);
                    match told {
                        Ok(cost) => Ok(Some(cost)),
                        Err(Failed::Interrupted) => Err(RunEnd::Interrupted),
                        Err(Failed::GivenUp(_)) => runner.broker_lives().map(|()| None),
                        Err(Failed::Refused(why)) => {
                            runner.crew[at].give_up(why);
                            runner.broker_lives().map(|()| None)
                        }
                    }
                })?;
                costs.extend(cost);
            }
            let about = &mut self.crew[at].about;
            about.warm_up_rounds = u32::try_from(costs.len()).unwrap_or(u32::MAX);
            about.warm_up_settled = is_warm(&costs, &plan);
            let text = match (&about.failed, about.warm_up_settled) {
                (Some(why), _) => format!("{}: {why}", about.name),
                (None, true) => format!("{}: warm after {} rounds", about.name, costs.len()),
                (None, false) => {
                    format!(
                        "{}: its cost has not settled in {} rounds",
                        about.name,
                        costs.len()
                    )
                }
            };
            observer.note(&text);
        }
        Ok(())
    }

    /// Writes what a cell reads, by a driver of our own: then all libraries read the same batches, and none of them is
    /// measured by what it wrote.
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
                "topic {topic} was filled with {end} records in place of {}",
                cell.records
            ))),
        }
    }

    /// Reads a topic back and compares every value; how many are not as they should be.
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
        let limit = self.reach.within(self.scaled_command_timeout(cell));
        let told = helper
            .consume(&command, limit)
            .map_err(|error| self.helper_failed(&error))?;
        let _ = helper.bye();
        Ok(told.bad)
    }

    /// A driver of our own with fair settings that takes no part.
    fn helper(&mut self, value_bytes: u64, records: u64) -> Result<Driver, RunEnd> {
        let largest = Largest {
            value_bytes,
            records,
            bytes: records.saturating_mul(value_bytes + 8),
        };
        let program = DriverProgram::built_in(self.exe).renamed(HELPER);
        let limit = self.reach.within(self.reach.timeout);
        let started = Driver::start(&program, &self.drivers_dir, limit);
        let mut helper = started.map_err(|error| self.helper_failed(&error))?;
        let command = weir_drivers::Configure {
            bootstrap: self.reach.bootstrap.to_owned(),
            profile: HELPER.to_owned(),
            settings: Profile::Fair.settings(HELPER, DriverOperation::Produce, 1, largest),
        };
        let told = helper.configure(&command, limit);
        told.map_err(|error| self.helper_failed(&error))?;
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
        let limit = self.reach.within(self.scaled_command_timeout(cell));
        let told = helper
            .produce(&command, limit)
            .map_err(|error| self.helper_failed(&error))?;
        match told.failed {
            0 => Ok(()),
            failed => Err(RunEnd::Instrument(format!(
                "{failed} records could not be written to {topic}: {}",
                told.errors
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

    /// Makes a topic, works with it, and deletes it whatever came of it.
    fn with_topic<T>(
        &mut self,
        topic: &str,
        cell: &LibraryCellSpec,
        work: impl FnOnce(&mut Self) -> Result<T, RunEnd>,
    ) -> Result<T, RunEnd> {
        let each = cell.disk_bytes();
        if self.disk.room(each, 1, self.reach.stop).topics == 0 {
            return Err(RunEnd::Instrument(format!(
                "no room for {:.0} MB of warm-up: raise --disk-cap, or give less in warm_up.records",
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
            // With a primer.
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

/// Whether enough rounds were made and the last two cost alike.
fn is_warm(costs: &[f64], plan: &super::plan::WarmUpPlan) -> bool {
    let [.., before, last] = costs else {
        return false;
    };
    let differs = (last - before).abs() / before.max(f64::MIN_POSITIVE);
    costs.len() >= plan.rounds_min as usize && differs < plan.within_share
}

/// Name of the driver that takes no part; also of its files.
pub(super) const HELPER: &str = "helper";
const PREHEAT_ROUNDS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::super::plan::LibrariesPlan;
    use super::*;

    #[test]
    fn warm_is_when_two_rounds_in_a_row_cost_alike_after_some() {
        let plan = LibrariesPlan::built_in().unwrap().warm_up;
        assert!(!is_warm(&[], &plan) && !is_warm(&[5.0, 5.0, 5.0], &plan));
        assert!(is_warm(&[90.0, 20.0, 10.0, 9.5], &plan));
        assert!(!is_warm(&[90.0, 20.0, 10.0, 8.9], &plan));
        assert!(!is_warm(&[0.0, 0.0, 0.0, 3.0], &plan));
        assert!(is_warm(&[9.0, 7.0, 5.0, 4.0, 4.1], &plan));
    }
}
