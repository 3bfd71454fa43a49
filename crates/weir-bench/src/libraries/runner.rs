//! Runs jobs and repetitions. One driver works at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_kafka::AdminError;
use weir_stats::libraries::headline;

use super::super::{BenchError, Observer};
use super::broker::LibraryBroker;
use super::disk::Disk;
use super::driver_set::{DriverEnv, DriverHandle};
use super::grid::LibraryCellSpec;
use super::host_usage::HostUsage;
use super::job::{self, TopicJob, Topics};
use super::journal::RunJournal;
use super::operation::DriverOperation;
use super::plan::LibrariesPlan;
use super::profile::Largest;
use super::topics::TopicNames;
use crate::experiment::turns;
use weir_load::clock::Clock;

/// State of a run.
pub(super) struct Runner<'a> {
    pub(super) plan: &'a LibrariesPlan,
    pub(super) exe: &'a Path,
    pub(super) env: DriverEnv<'a>,
    pub(super) broker: &'a mut LibraryBroker,
    pub(super) cells: Vec<LibraryCellSpec>,
    pub(super) drivers: Vec<DriverHandle>,
    pub(super) journal: RunJournal,
    pub(super) host_usage: HostUsage,
    pub(super) disk: Disk,
    pub(super) names: TopicNames,
    pub(super) run_id: String,
    pub(super) drivers_dir: PathBuf,
    pub(super) clock: Clock,
    pub(super) started_unix_ns: u64,
    /// `true` if topics of an earlier part of the run may exist.
    pub(super) is_resumed: bool,
    pub(super) largest: Largest,
    pub(super) began: Instant,
    /// Number of rejections by cell and driver.
    pub(super) rejections: BTreeMap<(usize, usize), u32>,
}

/// Reason for ending a run early.
#[derive(Debug)]
pub(super) enum RunEnd {
    /// The user interrupted the run.
    Interrupted,
    /// The broker does not respond, or a process of the benchmarking tool failed.
    Instrument(String),
    /// A file cannot be written.
    Files(BenchError),
}

impl RunEnd {
    pub(super) fn admin(error: AdminError) -> Self {
        Self::Instrument(error.to_string())
    }
}

impl Runner<'_> {
    /// Runs all jobs. Results are in the journal, even after an error.
    pub(super) fn run_all(&mut self, observer: &mut dyn Observer) -> Result<(), RunEnd> {
        for job in job::jobs(self.plan.profile, &self.cells) {
            for &step in &job.steps {
                observer.cell(step + 1, self.cells.len(), &self.cells[step].name());
            }
            self.check_stop()?;
            let first = &self.cells[job.steps[0]];
            let is_late = self
                .plan
                .time_limit
                .is_some_and(|limit| self.began.elapsed() >= limit);
            let reason = match &first.skipped {
                Some(reason) => Some(reason.clone()),
                None if is_late => Some("not started within the time limit".to_owned()),
                None => self.no_driver_supports(&job),
            };
            let reason = match reason {
                Some(reason) => Some(reason),
                None => self.job(&job, observer)?,
            };
            match reason {
                Some(reason) => self.skip(&job, &reason, observer),
                None => job
                    .steps
                    .iter()
                    .for_each(|&step| observer.note(&self.result_line(step))),
            }
        }
        Ok(())
    }

    fn skip(&mut self, job: &TopicJob, reason: &str, observer: &mut dyn Observer) {
        observer.note(&format!("skipped: {reason}"));
        for &step in &job.steps {
            self.cells[step].skipped = Some(reason.to_owned());
        }
    }

    fn no_driver_supports(&self, job: &TopicJob) -> Option<String> {
        let is_supported = job.steps.iter().any(|&step| {
            let mut drivers = self.drivers.iter();
            drivers.any(|handle| self.can_run(handle, step))
        });
        (!is_supported).then(|| "no remaining driver supports it".to_owned())
    }

    pub(super) fn can_run(&self, handle: &DriverHandle, step: usize) -> bool {
        handle.can(&self.cells[step].mode.capability(handle.name()))
    }

    /// Returns the repetitions of a job that at least one driver has not completed.
    fn pending_repetitions(&self, job: &TopicJob) -> Vec<u32> {
        let repetitions = self.cells[job.steps[0]].repetitions;
        let all = 0..repetitions;
        all.filter(|&repetition| {
            let mut steps = job.steps.iter();
            steps.any(|&step| {
                let mut drivers = 0..self.drivers.len();
                drivers.any(|at| self.is_due(at, step, repetition))
            })
        })
        .collect()
    }

    fn is_due(&self, at: usize, step: usize, repetition: u32) -> bool {
        let (handle, cell) = (&self.drivers[at], self.cells[step].name());
        let rejected = self.rejections.get(&(step, at)).copied().unwrap_or(0);
        let is_done = self.journal.has(&cell, repetition, handle.name());
        self.can_run(handle, step) && rejected < REJECTIONS_MAX && !is_done
    }

    /// Runs a job. Returns the reason if it was not started.
    fn job(
        &mut self,
        job: &TopicJob,
        observer: &mut dyn Observer,
    ) -> Result<Option<String>, RunEnd> {
        let left = self.pending_repetitions(job);
        if left.is_empty() {
            return Ok(None);
        }
        match job.topics {
            Topics::Shared => self.run_shared(job, &left),
            Topics::Own => self.run_own(job, left, observer),
        }
    }

    /// Runs a job with one topic that is written once and read by all drivers.
    fn run_shared(&mut self, job: &TopicJob, left: &[u32]) -> Result<Option<String>, RunEnd> {
        let cell = self.cells[job.steps[0]].clone();
        let each = cell.disk_bytes();
        if self.disk.capacity(each, 1, self.env.stop).topics == 0 {
            return Ok(Some(self.no_space_reason(each, 1)));
        }
        let topic = self.names.topic(&cell, SHARED, 0);
        let topics = [topic.clone()];
        self.create(&topics, &cell)?;
        let result = self.fill(&cell, &topic).and_then(|()| {
            self.verify_consumers(job.steps[0], &topic)?;
            left.iter()
                .try_for_each(|&repetition| self.repetition(job, repetition, &|_| topic.clone()))
        });
        self.delete(&topics, &cell);
        result.map(|()| None)
    }

    /// Runs a job with a topic per driver and repetition. Topics are created for as many
    /// repetitions at once as fit on the disk.
    fn run_own(
        &mut self,
        job: &TopicJob,
        mut left: Vec<u32>,
        observer: &mut dyn Observer,
    ) -> Result<Option<String>, RunEnd> {
        let cell = self.cells[job.steps[0]].clone();
        let each = cell.disk_bytes();
        let total = left.len();
        while !left.is_empty() {
            self.check_stop()?;
            let takes_part =
                |handle: &&DriverHandle| job.steps.iter().any(|&step| self.can_run(handle, step));
            let drivers: Vec<String> = self
                .drivers
                .iter()
                .filter(takes_part)
                .map(|handle| handle.name().to_owned())
                .collect();
            if drivers.is_empty() {
                return Ok(None);
            }
            let count = drivers.len() as u64;
            let wanted = count * left.len() as u64;
            let capacity = self.disk.capacity(each, wanted, self.env.stop);
            let now = job::chunk(&left, count, capacity.topics).to_vec();
            if now.is_empty() {
                let reason = self.no_space_reason(each, count);
                // Earlier results of the cell remain.
                return match left.len() == total {
                    true => Ok(Some(reason)),
                    false => Err(RunEnd::Instrument(reason)),
                };
            }
            if now.len() < total {
                let limit = if capacity.is_disk {
                    "free disk space"
                } else {
                    "the disk cap"
                };
                observer.note(&format!("{limit} allows {} repetitions at once", now.len()));
            }
            let topics: Vec<String> = now
                .iter()
                .flat_map(|&repetition| drivers.iter().map(move |name| (name, repetition)))
                .map(|(name, repetition)| self.names.topic(&cell, name, repetition))
                .collect();
            self.create(&topics, &cell)?;
            let names = self.names.clone();
            let result = now.iter().try_for_each(|&repetition| {
                let topic = |name: &str| names.topic(&cell, name, repetition);
                self.repetition(job, repetition, &topic)
            });
            self.delete(&topics, &cell);
            result?;
            left.drain(..now.len());
        }
        Ok(None)
    }

    fn no_space_reason(&self, each: u64, count: u64) -> String {
        let needed = each.saturating_mul(count) as f64 / 1e9;
        match self.disk.can_hold(each.saturating_mul(count)) {
            true => {
                format!("needs {needed:.2} GB of disk at once, but the disk has less free space")
            }
            false => format!(
                "needs {needed:.2} GB of disk at once, above --disk-cap {:.2}GB",
                self.plan.disk_cap as f64 / 1e9
            ),
        }
    }

    /// Runs every driver once. All drivers collect garbage before the first one starts.
    fn repetition(
        &mut self,
        job: &TopicJob,
        repetition: u32,
        topic: &dyn Fn(&str) -> String,
    ) -> Result<(), RunEnd> {
        for at in 0..self.drivers.len() {
            self.check_stop()?;
            if self.drivers[at].pid().is_some() {
                let done = self.drivers[at].collect_garbage(&self.env);
                self.handle_failure(done)?;
            }
        }
        let all: Vec<usize> = (0..self.drivers.len()).collect();
        let order = match self.plan.profile.has_rotation() {
            true => turns::order(&all, repetition as usize),
            false => all,
        };
        for (turn, at) in order.into_iter().enumerate() {
            let name = self.drivers[at].name().to_owned();
            self.run_driver(job, repetition, (turn, at), &topic(&name))?;
        }
        Ok(())
    }

    /// Runs one driver in a repetition.
    fn run_driver(
        &mut self,
        job: &TopicJob,
        repetition: u32,
        (turn, at): (usize, usize),
        topic: &str,
    ) -> Result<(), RunEnd> {
        let mut is_filled = job.topics == Topics::Shared;
        for &step in &job.steps {
            if !self.is_due(at, step, repetition) {
                continue;
            }
            if self.cells[step].operation() == DriverOperation::Consume && !is_filled {
                // In the legacy profile each driver reads what it wrote, even if no produce cell
                // was selected.
                let filled = self.run_cell(step, at, topic, DriverOperation::Produce);
                if self.handle_failure(filled)?.is_none() {
                    continue;
                }
            }
            let mut sample = self.measure(step, at, topic)?;
            is_filled = true;
            sample.repetition = repetition;
            sample.turn = u32::try_from(turn).unwrap_or(u32::MAX);
            self.verify_produced(step, at, topic, &mut sample)?;
            let is_valid = sample.invalid.is_empty();
            self.journal.add(sample).map_err(RunEnd::Files)?;
            if !is_valid {
                // Records that were not written cannot be read.
                break;
            }
        }
        Ok(())
    }

    pub(super) fn check_broker(&mut self) -> Result<(), RunEnd> {
        match self.broker.is_down() {
            true => Err(RunEnd::Instrument("the broker does not respond".to_owned())),
            false => Ok(()),
        }
    }

    pub(super) fn read_host_usage(&mut self) {
        let pids: Vec<u32> = self.drivers.iter().filter_map(DriverHandle::pid).collect();
        self.host_usage.read(&pids);
    }

    pub(super) fn create(
        &mut self,
        topics: &[String],
        cell: &LibraryCellSpec,
    ) -> Result<(), RunEnd> {
        if self.is_resumed {
            // Removes topics of an interrupted run.
            self.broker
                .admin
                .delete_topics(topics)
                .map_err(RunEnd::admin)?;
        }
        let request_bytes = (cell.value_bytes + REQUEST_OVERHEAD)
            .max(REQUEST_BYTES)
            .to_string();
        let configs = [
            // No record may be removed before the topic is deleted.
            ("retention.ms", "-1"),
            ("retention.bytes", "-1"),
            ("max.message.bytes", request_bytes.as_str()),
        ];
        let created = self.broker.admin.create_topics(topics, &configs);
        created.map_err(RunEnd::admin)
    }

    /// Deletes topics. A failure is logged and ignored.
    pub(super) fn delete(&mut self, topics: &[String], cell: &LibraryCellSpec) {
        let bytes = cell.disk_bytes().saturating_mul(topics.len() as u64);
        self.disk.deleted(bytes);
        if let Err(error) = self.broker.admin.delete_topics(topics) {
            tracing::warn!(%error, "deleting topics failed");
        }
    }

    /// Returns the timeout of a command: the base timeout plus time for the amount of data.
    pub(super) fn scaled_command_timeout(&self, cell: &LibraryCellSpec) -> Duration {
        let schedule_s = cell
            .rate_per_s
            .map_or(0.0, |rate| cell.records as f64 / rate as f64);
        let moved_s =
            cell.bytes() as f64 / SLOW_BYTES_PER_S + cell.records as f64 / SLOW_RECORDS_PER_S;
        self.env.timeout + Duration::from_secs_f64(schedule_s + moved_s)
    }

    pub(super) fn check_stop(&self) -> Result<(), RunEnd> {
        match self.env.stop.load(Ordering::Relaxed) {
            true => Err(RunEnd::Interrupted),
            false => Ok(()),
        }
    }

    /// Returns one line about a cell that has run: the median of each library.
    fn result_line(&self, step: usize) -> String {
        let cell = self.cells[step].to_library_cell();
        let quantity = headline(self.plan.profile.name(), &cell);
        let medians: Vec<String> = self
            .drivers
            .iter()
            .map(|handle| {
                let samples = self.journal.samples().iter().filter(|sample| {
                    sample.cell == cell.name
                        && sample.driver == handle.name()
                        && sample.invalid.is_empty()
                });
                let values: Vec<f64> = samples.filter_map(|sample| quantity.of(sample)).collect();
                match weir_stats::interval::median(&values) {
                    Some(median) => format!("{} {:.2} ms", handle.name(), median.value / 1e3),
                    None => format!("{} -", handle.name()),
                }
            })
            .collect();
        format!("{} ({}, medians)", medians.join(", "), quantity.title)
    }
}

/// Number of rejections after which a driver no longer gets a cell.
const REJECTIONS_MAX: u32 = 3;
/// Replaces the driver's name in topics that all drivers read.
const SHARED: &str = "all";
const SLOW_BYTES_PER_S: f64 = 5e6;
const SLOW_RECORDS_PER_S: f64 = 5e3;
const REQUEST_BYTES: u64 = 1_048_588;
const REQUEST_OVERHEAD: u64 = 65_536;
