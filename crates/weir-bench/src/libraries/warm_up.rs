//! Warm-up of the broker and the drivers before the first cell, and the helper driver.

use weir_drivers::{
    AssignmentMode, CommandLimit, Configure, Consume, Driver, DriverError, DriverFailure,
    DriverProgram, ProduceCommand, Produced, ProducerState, WarmUp,
};

use super::grid::{LibraryCellSpec, StartMode};
use super::plan::WarmUpPlan;
use super::profile::{DriverOperation, Largest, Profile};
use super::requested::HELPER;
use super::run_end::{CommandFailure, RunEnd, RunResult};
use super::runner::Runner;
use crate::Observer;

impl Runner<'_> {
    /// Puts load on the broker with the helper driver. A Java broker is slow in its first seconds,
    /// and it creates the topic of group offsets with the first group.
    pub(super) fn warm_up_broker(&mut self, observer: &mut dyn Observer) -> RunResult {
        if self.plan.warm_up.records == 0 {
            return Ok(());
        }
        observer.note("warming up the broker");
        for round in 0..BROKER_ROUNDS {
            self.with_warm_up_topic(&format!("broker-{round}"), |runner, spec, topic| {
                let produce = runner.produce(spec, topic);
                let consume = Consume {
                    burst: produce.burst.clone(),
                    via: AssignmentMode::Group,
                    verify: false,
                    commit: true,
                };
                let produced = runner.with_helper(spec, |helper, limit| {
                    let produced = helper.run(&produce, limit)?;
                    if produced.delivered.failed == 0 {
                        helper.run(&consume, limit)?;
                    }
                    Ok(produced)
                });
                check_written(topic, &produced?)
            })?;
        }
        Ok(())
    }

    /// Runs warm-up rounds with every driver until its CPU time per record is steady.
    pub(super) fn warm_up(&mut self, observer: &mut dyn Observer) -> RunResult {
        let plan = self.plan.warm_up;
        if plan.records == 0 || self.plan.profile == Profile::Legacy {
            return Ok(());
        }
        for at in 0..self.drivers.len() {
            if self.drivers[at].pid().is_none() {
                // The reason was reported when it did not start.
                continue;
            }
            let mut costs: Vec<f64> = Vec::new();
            while self.drivers[at].pid().is_some()
                && !is_warm(&costs, &plan)
                && costs.len() < plan.rounds_max as usize
            {
                let name = format!("{}-{}", self.drivers[at].name(), costs.len());
                let reported = self.with_warm_up_topic(&name, |runner, spec, topic| {
                    let request = WarmUp(spec.burst(topic, runner.plan.seed));
                    runner.command(at, &request, runner.scaled_command_timeout(spec))
                })?;
                match reported {
                    Ok(cost) => {
                        let consume_us = cost.consume_cpu_us_per_record;
                        costs.push(cost.produce_cpu_us_per_record + consume_us);
                    }
                    Err(CommandFailure::GivenUp(_)) => {}
                    Err(CommandFailure::Rejected(reason)) => {
                        self.drivers[at].give_up(reason);
                        self.check_broker()?;
                    }
                }
            }
            let about = &mut self.drivers[at].about;
            let rounds = costs.len();
            about.warm_up_rounds = u32::try_from(rounds).unwrap_or(u32::MAX);
            about.warm_up_settled = is_warm(&costs, &plan);
            let state = match (&about.failed, about.warm_up_settled) {
                (Some(reason), _) => reason.clone(),
                (None, true) => format!("warm after {rounds} rounds"),
                (None, false) => {
                    format!("CPU time per record is not steady after {rounds} rounds")
                }
            };
            observer.note(&format!("{}: {state}", about.name));
        }
        Ok(())
    }

    /// Fills a topic with the helper driver. All libraries then read the same batches, and none
    /// reads the batches of its own producer.
    pub(super) fn fill(&mut self, spec: &LibraryCellSpec, topic: &str) -> RunResult {
        let produce = self.produce(spec, topic);
        let produced = self.with_helper(spec, |helper, limit| helper.run(&produce, limit))?;
        check_written(topic, &produced)?;
        let end = self.broker.admin.end_offset(topic, 0);
        let (end, expected) = (end.map_err(RunEnd::instrument)?, spec.cell.records);
        let text =
            format!("topic \"{topic}\" has {end} records after filling, expected {expected}");
        (end == expected).then_some(()).ok_or(RunEnd::Tool(text))
    }

    /// Reads a topic back, compares every value and returns the number of wrong records.
    pub(super) fn verify(
        &mut self,
        spec: &LibraryCellSpec,
        topic: &str,
        records: u64,
    ) -> RunResult<u64> {
        let mut consume = Consume {
            burst: spec.burst(topic, self.plan.seed),
            via: AssignmentMode::Assign,
            verify: true,
            commit: false,
        };
        consume.burst.count = records;
        let consumed = self.with_helper(spec, |helper, limit| helper.run(&consume, limit));
        Ok(consumed?.bad)
    }

    /// Calls `work` with a new helper driver that has the settings of the profile fair.
    fn with_helper<T>(
        &self,
        spec: &LibraryCellSpec,
        work: impl FnOnce(&mut Driver, CommandLimit<'_>) -> Result<T, DriverError>,
    ) -> RunResult<T> {
        let largest = Largest {
            value_bytes: spec.cell.value_bytes,
            records: spec.cell.records,
            bytes: spec.bytes(),
        };
        let program = DriverProgram::built_in(&self.run_dir.options.exe).renamed(HELPER);
        let limit = self.limit(self.plan.command_timeout);
        let configure = Configure {
            bootstrap: self.broker.bootstrap.clone(),
            client_file: self.client_file.clone(),
            profile: HELPER.to_owned(),
            settings: Profile::Fair.settings(HELPER, DriverOperation::Produce, 1, largest),
        };
        let scaled = self.limit(self.scaled_command_timeout(spec));
        let worked = Driver::start(&program, &self.drivers_dir, limit).and_then(|mut helper| {
            helper.run(&configure, limit)?;
            let result = work(&mut helper, scaled)?;
            // The result is there, however the driver ends.
            let _ = helper.bye();
            Ok(result)
        });
        worked.map_err(|error| match error.reason {
            DriverFailure::Interrupted => RunEnd::Interrupted,
            _ => RunEnd::instrument(error),
        })
    }

    fn produce(&self, spec: &LibraryCellSpec, topic: &str) -> ProduceCommand {
        ProduceCommand {
            burst: spec.burst(topic, self.plan.seed),
            state: ProducerState::Metadata,
            per_record: false,
        }
    }

    /// Calls `work` with a topic for the records of a warm-up round.
    fn with_warm_up_topic<T>(
        &mut self,
        name: &str,
        work: impl FnOnce(&mut Self, &LibraryCellSpec, &str) -> RunResult<T>,
    ) -> RunResult<T> {
        let plan = self.plan;
        // Not counting the primer.
        let (value_bytes, records) = (plan.warm_up.value_bytes, plan.warm_up.records);
        let spec = LibraryCellSpec::new(plan, StartMode::Warm, value_bytes, records);
        let each = spec.disk_bytes();
        if self.disk.capacity(each, 1, self.run_dir.stop).topics == 0 {
            let mb = each as f64 / 1e6;
            return Err(RunEnd::Tool(format!(
                "no disk space for {mb:.0} MB of warm-up: raise --disk-cap or reduce \
                 warm_up.records"
            )));
        }
        let (prefix, run, id) = (&plan.topic_prefix, self.names.run(), std::process::id());
        let topic = format!("{prefix}-warm-up-{run}-{id}-{name}");
        self.with_topics(std::slice::from_ref(&topic), &spec, |runner| {
            work(runner, &spec, &topic)
        })
    }
}

fn check_written(topic: &str, produced: &Produced) -> RunResult {
    let (failed, errors) = (produced.delivered.failed, &produced.delivered.errors);
    match failed {
        0 => Ok(()),
        _ => Err(RunEnd::Tool(format!(
            "writing {failed} records to topic \"{topic}\" failed: {}",
            errors.first().map_or("no reason given", String::as_str)
        ))),
    }
}

/// Returns `true` if there were enough rounds and the last two differ little.
fn is_warm(costs: &[f64], plan: &WarmUpPlan) -> bool {
    let [.., before, last] = costs else {
        return false;
    };
    let differs = (last - before).abs() / before.max(f64::MIN_POSITIVE);
    costs.len() >= plan.rounds_min as usize && differs < plan.within_share
}

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
