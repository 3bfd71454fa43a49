//! Runs jobs and repetitions. One driver works at a time.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weir_drivers::host_usage::HostUsage;
use weir_drivers::{CommandLimit, Configure, DriverRequest, Gc};
use weir_stats::libraries::headline;
use weir_stats::run::LibrarySample;

use super::disk::Disk;
use super::driver_set::{DriverHandle, note_settings};
use super::estimate::{TimeLeft, cell_time, length};
use super::grid::LibraryCellSpec;
use super::job::{self, TopicJob};
use super::journal::RunJournal;
use super::plan::LibrariesPlan;
use super::profile::{DriverOperation, Largest, Profile};
use super::run_end::{CommandFailure, CommandResult, RunEnd, RunResult};
use super::topics::TopicNames;
use crate::Observer;
use crate::experiment::{KEEP_ALL, RunBroker, RunDir, turns};

pub(super) struct Runner<'a> {
    pub(super) plan: &'a LibrariesPlan,
    pub(super) run_dir: &'a RunDir<'a>,
    pub(super) broker: &'a RunBroker,
    /// Client properties for the drivers, if there are any.
    pub(super) client_file: Option<PathBuf>,
    pub(super) cells: Vec<LibraryCellSpec>,
    pub(super) drivers: Vec<DriverHandle>,
    pub(super) journal: RunJournal,
    pub(super) host_usage: HostUsage,
    pub(super) disk: Disk,
    pub(super) names: TopicNames,
    pub(super) drivers_dir: PathBuf,
    /// `true` if topics of an earlier part of the run may exist.
    pub(super) is_resumed: bool,
    pub(super) largest: Largest,
    pub(super) began: Instant,
    pub(super) left: TimeLeft,
    /// Number of rejections by cell and driver.
    pub(super) rejections: BTreeMap<(usize, usize), u32>,
}

impl<'a> Runner<'a> {
    /// Runs all jobs. Results are in the journal, even after an error.
    pub(super) fn run_all(&mut self, observer: &mut dyn Observer) -> RunResult {
        let jobs = job::jobs(self.plan.profile, &self.cells);
        let times: Vec<Duration> = jobs.iter().map(|job| self.estimate(job)).collect();
        self.left = TimeLeft::new(times.iter().sum());
        for (job, time) in jobs.into_iter().zip(times) {
            for step in job.steps.clone() {
                observer.cell(step + 1, self.cells.len(), &self.cells[step].cell.name);
            }
            self.check_stop()?;
            let limit = self.plan.time_limit.unwrap_or(Duration::MAX);
            let reason = match &self.cells[job.steps.start].cell.skipped {
                Some(reason) => Some(reason.clone()),
                None if self.began.elapsed() >= limit => {
                    Some("not started within the time limit".to_owned())
                }
                None if self.drivers_of(&job).next().is_none() => {
                    Some("no remaining driver supports it".to_owned())
                }
                None => self.job(&job, observer)?,
            };
            if let Some(reason) = &reason {
                observer.note(&format!("skipped: {reason}"));
            }
            for step in job.steps {
                match &reason {
                    Some(_) => self.cells[step].cell.skipped.clone_from(&reason),
                    None => observer.note(&self.result_line(step)),
                }
            }
            self.left.complete(time);
            if let Some(left) = self.left.estimate().filter(|left| *left >= SHOWN_LEFT_MIN) {
                observer.note(&format!("about {} left (estimated)", length(left)));
            }
        }
        Ok(())
    }

    /// Returns the estimated time of the repetitions that are still to be measured.
    fn estimate(&self, job: &TopicJob) -> Duration {
        let all = self.cells[job.steps.start].cell.repetitions.max(1);
        let pending = self.pending_repetitions(job).len() as f64 / f64::from(all);
        let drivers = self.drivers_of(job).count();
        let steps = self.cells[job.steps.clone()].iter();
        let times = steps.map(|spec| cell_time(spec, self.plan.profile, drivers));
        times.sum::<Duration>().mul_f64(pending)
    }

    /// Returns the names of the drivers that can run a part of the job.
    fn drivers_of(&self, job: &TopicJob) -> impl Iterator<Item = &str> {
        let can = |handle: &&DriverHandle| job.steps.clone().any(|it| self.can_run(handle, it));
        self.drivers.iter().filter(can).map(DriverHandle::name)
    }

    pub(super) fn can_run(&self, handle: &DriverHandle, step: usize) -> bool {
        handle.can(&self.cells[step].mode.capability(&handle.about.library))
    }

    /// Returns the repetitions of a job that at least one driver has not completed.
    fn pending_repetitions(&self, job: &TopicJob) -> Vec<u32> {
        let all = 0..self.cells[job.steps.start].cell.repetitions;
        let is_pending = |repetition: &u32| {
            let drivers = 0..self.drivers.len();
            let mut turns = drivers.flat_map(|at| job.steps.clone().map(move |step| (at, step)));
            turns.any(|(at, step)| self.is_due(at, step, *repetition))
        };
        all.filter(is_pending).collect()
    }

    fn is_due(&self, at: usize, step: usize, repetition: u32) -> bool {
        let (handle, cell) = (&self.drivers[at], &self.cells[step].cell.name);
        let rejected = self.rejections.get(&(step, at)).copied().unwrap_or(0);
        let is_done = self.journal.has(cell, repetition, handle.name());
        self.can_run(handle, step) && rejected < REJECTIONS_MAX && !is_done
    }

    /// Runs a job. Returns the reason if it was not started.
    fn job(&mut self, job: &TopicJob, observer: &mut dyn Observer) -> RunResult<Option<String>> {
        let left = self.pending_repetitions(job);
        match job.is_shared {
            _ if left.is_empty() => Ok(None),
            true => self.run_shared(job, &left),
            false => self.run_own(job, &left, observer),
        }
    }

    /// Runs a job with one topic that is written once and read by all drivers.
    fn run_shared(&mut self, job: &TopicJob, left: &[u32]) -> RunResult<Option<String>> {
        let spec = self.cells[job.steps.start].clone();
        let each = spec.disk_bytes();
        if self.disk.capacity(each, 1, self.run_dir.stop).topics == 0 {
            return Ok(Some(self.no_space_reason(each)));
        }
        let topic = self.names.shared(&spec);
        self.with_topics(std::slice::from_ref(&topic), &spec, |runner| {
            runner.fill(&spec, &topic)?;
            runner.verify_consumers(job.steps.start, &topic)?;
            let mut left = left.iter();
            left.try_for_each(|&repetition| runner.repetition(job, repetition, &|_| topic.clone()))
        })?;
        Ok(None)
    }

    /// Runs a job with a topic per driver and repetition. Topics are created for as many
    /// repetitions at once as fit on the disk. Copies also have one topic that all drivers read.
    fn run_own(
        &mut self,
        job: &TopicJob,
        all: &[u32],
        observer: &mut dyn Observer,
    ) -> RunResult<Option<String>> {
        let spec = self.cells[job.steps.start].clone();
        let (each, names) = (spec.disk_bytes(), self.names.clone());
        let copied = (spec.operation() == DriverOperation::Copy).then(|| names.shared(&spec));
        let mut left = all;
        while !left.is_empty() {
            self.check_stop()?;
            let drivers: Vec<String> = self.drivers_of(job).map(str::to_owned).collect();
            if drivers.is_empty() {
                return Ok(None);
            }
            let count = drivers.len() as u64;
            let more = u64::from(copied.is_some());
            let wanted = count * left.len() as u64 + more;
            let capacity = self.disk.capacity(each, wanted, self.run_dir.stop);
            let free = capacity.topics.saturating_sub(more);
            let (now, later) = left.split_at(job::chunk(left.len(), count, free));
            if now.is_empty() {
                let reason = self.no_space_reason(each.saturating_mul(count + more));
                // Earlier results of the cell remain.
                return match left.len() == all.len() {
                    true => Ok(Some(reason)),
                    false => Err(RunEnd::Tool(reason)),
                };
            }
            if now.len() < all.len() {
                let limit = match capacity.is_disk {
                    true => "free disk space",
                    false => "the disk cap",
                };
                observer.note(&format!("{limit} allows {} repetitions at once", now.len()));
            }
            let mut topics = Vec::from_iter(copied.clone());
            for &repetition in now {
                topics.extend(
                    drivers
                        .iter()
                        .map(|name| names.topic(&spec, name, repetition)),
                );
            }
            self.with_topics(&topics, &spec, |runner| {
                if let Some(topic) = &copied {
                    runner.fill(&spec, topic)?;
                }
                now.iter().try_for_each(|&repetition| {
                    let topic = |name: &str| names.topic(&spec, name, repetition);
                    runner.repetition(job, repetition, &topic)
                })
            })?;
            left = later;
        }
        Ok(None)
    }

    fn no_space_reason(&self, bytes: u64) -> String {
        let needed = format!("needs {:.2} GB of disk at once", bytes as f64 / 1e9);
        match bytes <= self.plan.disk_cap {
            true => format!("{needed}, but the disk has less free space"),
            false => {
                let cap = self.plan.disk_cap as f64 / 1e9;
                format!("{needed}, above --disk-cap {cap:.2}GB")
            }
        }
    }

    /// Runs every driver once. All drivers collect garbage before the first one starts.
    fn repetition(
        &mut self,
        job: &TopicJob,
        repetition: u32,
        topic: &dyn Fn(&str) -> String,
    ) -> RunResult {
        let all: Vec<usize> = (0..self.drivers.len()).collect();
        for &at in &all {
            self.check_stop()?;
            if self.drivers[at].pid().is_some() {
                // A driver that fails takes no further part.
                let _ = self.command(at, &Gc {}, self.plan.command_timeout)?;
            }
        }
        let order = match self.plan.profile {
            Profile::Legacy => all,
            Profile::Fair | Profile::DefaultSettings => turns::order(&all, repetition as usize),
        };
        for (turn, at) in order.into_iter().enumerate() {
            let topic = topic(self.drivers[at].name());
            self.run_driver(job, repetition, (turn, at), &topic)?;
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
    ) -> RunResult {
        let mut is_filled = job.is_shared;
        for step in job.steps.clone() {
            if !self.is_due(at, step, repetition) {
                continue;
            }
            if self.cells[step].operation() == DriverOperation::Consume && !is_filled {
                // In the legacy profile each driver reads what it wrote, even if no produce cell
                // was selected.
                let (produce, mut unused) = (DriverOperation::Produce, LibrarySample::default());
                let produced = self.run_cell(step, at, topic, produce, &mut unused)?;
                if produced.is_err() {
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

    /// Runs a command of a driver. The outer error ends the run: an interruption, or a broker that
    /// does not respond, in which case failures are not the drivers' fault.
    pub(super) fn command<R: DriverRequest>(
        &mut self,
        at: usize,
        request: &R,
        within: Duration,
    ) -> CommandResult<R::Response> {
        let limit = self.limit(within);
        let result = self.drivers[at].run(request, limit)?;
        if let Err(CommandFailure::GivenUp(_)) = &result {
            self.check_broker()?;
        }
        Ok(result)
    }

    /// Configures the clients that a driver creates from now on for `operation`.
    pub(super) fn configure(&mut self, at: usize, operation: DriverOperation) -> CommandResult {
        let (plan, library) = (self.plan, &self.drivers[at].about.library);
        let (profile, acks) = (plan.profile, plan.acks);
        let settings = profile.settings(library, operation, acks, self.largest);
        if self.drivers[at].settings.as_ref() == Some(&settings) {
            return Ok(Ok(()));
        }
        let request = Configure {
            bootstrap: self.broker.bootstrap.clone(),
            client_file: self.client_file.clone(),
            profile: plan.profile.name().to_owned(),
            settings,
        };
        let configured = self.command(at, &request, plan.command_timeout)?;
        Ok(configured.map(|configured| {
            let handle = &mut self.drivers[at];
            let listed = &mut handle.about.settings;
            note_settings(listed, &request.settings, &configured, operation);
            handle.settings = Some(request.settings);
        }))
    }

    pub(super) fn limit(&self, within: Duration) -> CommandLimit<'a> {
        CommandLimit {
            timeout: within,
            stop: self.run_dir.stop,
        }
    }

    pub(super) fn check_broker(&self) -> RunResult {
        let is_down = match self.broker.lab {
            Some(_) => self.broker.has_exited(),
            None => self.broker.admin.broker_ids().is_err(),
        };
        match is_down {
            true => Err(RunEnd::Tool("the broker does not respond".to_owned())),
            false => Ok(()),
        }
    }

    pub(super) fn read_host_usage(&mut self) {
        let pids: Vec<u32> = self.drivers.iter().filter_map(DriverHandle::pid).collect();
        self.host_usage.read(&pids);
    }

    /// Creates topics for a cell, calls `work` and deletes the topics, even after an error.
    pub(super) fn with_topics<T>(
        &mut self,
        topics: &[String],
        spec: &LibraryCellSpec,
        work: impl FnOnce(&mut Self) -> RunResult<T>,
    ) -> RunResult<T> {
        let admin = &self.broker.admin;
        if self.is_resumed {
            // Removes topics of an interrupted run.
            admin.delete_topics(topics).map_err(RunEnd::instrument)?;
        }
        let request_bytes = spec.cell.value_bytes + REQUEST_OVERHEAD;
        let request_bytes = request_bytes.max(REQUEST_BYTES).to_string();
        let configs = [
            KEEP_ALL[0],
            KEEP_ALL[1],
            ("max.message.bytes", request_bytes.as_str()),
        ];
        let created = admin.create_topics(topics, &configs);
        created.map_err(RunEnd::instrument)?;
        let result = work(self);
        let bytes = spec.disk_bytes().saturating_mul(topics.len() as u64);
        self.disk.deleted(bytes);
        if let Err(error) = admin.delete_topics(topics) {
            tracing::warn!(%error, "deleting topics failed");
        }
        result
    }

    /// Returns the timeout of a command: the base timeout plus time for the amount of data.
    pub(super) fn scaled_command_timeout(&self, spec: &LibraryCellSpec) -> Duration {
        let records = spec.cell.records as f64;
        let schedule_s = spec.cell.rate_per_s.map_or(0.0, |rate| records / rate);
        let moved_s = spec.bytes() as f64 / SLOW_BYTES_PER_S + records / SLOW_RECORDS_PER_S;
        self.plan.command_timeout + Duration::from_secs_f64(schedule_s + moved_s)
    }

    pub(super) fn check_stop(&self) -> RunResult {
        match self.run_dir.is_stopped() {
            true => Err(RunEnd::Interrupted),
            false => Ok(()),
        }
    }

    /// Returns one line about a cell that has run: the median of each library.
    fn result_line(&self, step: usize) -> String {
        let cell = &self.cells[step].cell;
        let quantity = headline(self.plan.profile.name(), cell);
        let drivers = self.drivers.iter();
        let started = drivers.filter(|handle| !handle.about.library.is_empty());
        let medians = started.map(|handle| {
            let name = handle.name();
            let samples = self.journal.samples.iter().filter(|sample| {
                sample.cell == cell.name && sample.driver == name && sample.invalid.is_empty()
            });
            let values: Vec<f64> = samples.filter_map(|sample| quantity.of(sample)).collect();
            match weir_stats::interval::median(&values) {
                Some(median) => format!("{name} {:.2} ms", median.value / 1e3),
                None => format!("{name} -"),
            }
        });
        let medians: Vec<String> = medians.collect();
        format!("{} ({}, medians)", medians.join(", "), quantity.title)
    }
}

/// Minimum time left that is reported.
const SHOWN_LEFT_MIN: Duration = Duration::from_secs(60);
/// Number of rejections after which a driver no longer gets a cell.
const REJECTIONS_MAX: u32 = 3;
const SLOW_BYTES_PER_S: f64 = 5e6;
const SLOW_RECORDS_PER_S: f64 = 5e3;
const REQUEST_BYTES: u64 = 1_048_588;
const REQUEST_OVERHEAD: u64 = 65_536;
