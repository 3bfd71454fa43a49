//! The course of a run: job after job, repetition after repetition, one driver's work at a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_kafka::AdminError;
use weir_stats::libraries::headline;

use super::super::{BenchError, Observer, rotation};
use super::broker::LibraryBroker;
use super::disk::Disk;
use super::driver_set::{DriverEnv, DriverHandle};
use super::grid::{DriverOperation, LibraryCellSpec};
use super::job::{self, TopicJob, Topics};
use super::journal::RunJournal;
use super::others::HostUsage;
use super::plan::LibrariesPlan;
use super::profile::Largest;
use super::topics::Names;
use weir_load::clock::Clock;

/// Everything a run has in its hands.
pub(super) struct Runner<'a> {
    pub(super) plan: &'a LibrariesPlan,
    pub(super) exe: &'a Path,
    pub(super) reach: DriverEnv<'a>,
    pub(super) broker: &'a mut LibraryBroker,
    pub(super) cells: Vec<LibraryCellSpec>,
    pub(super) crew: Vec<DriverHandle>,
    pub(super) journal: RunJournal,
    pub(super) others: HostUsage,
    pub(super) disk: Disk,
    pub(super) names: Names,
    pub(super) run_id: String,
    pub(super) drivers_dir: PathBuf,
    pub(super) clock: Clock,
    pub(super) started_unix_ns: u64,
    /// Whether topics may be left of an earlier part of the run.
    pub(super) is_resumed: bool,
    pub(super) largest: Largest,
    pub(super) began: Instant,
    /// How often a driver has refused a cell, by cell and driver.
    pub(super) refusals: BTreeMap<(usize, usize), u32>,
}

/// Why a run does not go on.
#[derive(Debug)]
pub(super) enum RunEnd {
    /// The user has had enough.
    Interrupted,
    /// The broker does not answer, or a part of ours failed.
    Instrument(String),
    /// Nothing can be written.
    Files(BenchError),
}

impl RunEnd {
    pub(super) fn admin(error: AdminError) -> Self {
        Self::Instrument(error.to_string())
    }
}

impl Runner<'_> {
    /// All jobs. What ends a run early is returned; what was measured is in the journal.
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
                None if is_late => Some("not begun within the time limit".to_owned()),
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
                    .for_each(|&step| observer.note(&self.line(step))),
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
        let some = job.steps.iter().any(|&step| {
            let mut crew = self.crew.iter();
            crew.any(|member| self.can(member, step))
        });
        (!some).then(|| "no driver that is left can do it".to_owned())
    }

    pub(super) fn can(&self, member: &DriverHandle, step: usize) -> bool {
        member.can(&self.cells[step].mode.needs(member.name()))
    }

    /// Repetitions of a job that somebody still has to go through.
    fn left(&self, job: &TopicJob) -> Vec<u32> {
        let repetitions = self.cells[job.steps[0]].repetitions;
        let all = 0..repetitions;
        all.filter(|&repetition| {
            let mut steps = job.steps.iter();
            steps.any(|&step| {
                let mut crew = 0..self.crew.len();
                crew.any(|at| self.is_due(at, step, repetition))
            })
        })
        .collect()
    }

    fn is_due(&self, at: usize, step: usize, repetition: u32) -> bool {
        let (member, cell) = (&self.crew[at], self.cells[step].name());
        let refused = self.refusals.get(&(step, at)).copied().unwrap_or(0);
        let has_been = self.journal.has(&cell, repetition, member.name());
        self.can(member, step) && refused < REFUSALS_MAX && !has_been
    }

    /// Goes through a job; why it was not begun, if so.
    fn job(
        &mut self,
        job: &TopicJob,
        observer: &mut dyn Observer,
    ) -> Result<Option<String>, RunEnd> {
        let left = self.left(job);
        if left.is_empty() {
            return Ok(None);
        }
        match job.topics {
            Topics::Shared => self.shared(job, &left),
            Topics::Own => self.own(job, left, observer),
        }
    }

    /// One topic that is written once and read by all.
    fn shared(&mut self, job: &TopicJob, left: &[u32]) -> Result<Option<String>, RunEnd> {
        let cell = self.cells[job.steps[0]].clone();
        let each = cell.disk_bytes();
        if self.disk.room(each, 1, self.reach.stop).topics == 0 {
            return Ok(Some(self.no_room(each, 1)));
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

    /// A topic for each driver and repetition: those of a cell in one request, or of as many repetitions as there is room for.
    fn own(
        &mut self,
        job: &TopicJob,
        mut left: Vec<u32>,
        observer: &mut dyn Observer,
    ) -> Result<Option<String>, RunEnd> {
        let cell = self.cells[job.steps[0]].clone();
        let each = cell.disk_bytes();
        let whole = left.len();
        while !left.is_empty() {
            self.check_stop()?;
            let taking =
                |member: &&DriverHandle| job.steps.iter().any(|&step| self.can(member, step));
            let drivers: Vec<String> = self
                .crew
                .iter()
                .filter(taking)
                .map(|member| member.name().to_owned())
                .collect();
            if drivers.is_empty() {
                return Ok(None);
            }
            let count = drivers.len() as u64;
            let wanted = count * left.len() as u64;
            let room = self.disk.room(each, wanted, self.reach.stop);
            let now = job::chunk(&left, count, room.topics).to_vec();
            if now.is_empty() {
                let reason = self.no_room(each, count);
                // What was measured before stands.
                return match left.len() == whole {
                    true => Ok(Some(reason)),
                    false => Err(RunEnd::Instrument(reason)),
                };
            }
            if now.len() < whole {
                let limit = if room.is_disk {
                    "free disk space"
                } else {
                    "the disk cap"
                };
                observer.note(&format!(
                    "{limit} lets {} repetitions run at once",
                    now.len()
                ));
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

    fn no_room(&self, each: u64, count: u64) -> String {
        let needed = each.saturating_mul(count) as f64 / 1e9;
        match self.disk.can_hold(each.saturating_mul(count)) {
            true => format!("needs {needed:.2} GB of disk at once, which are not free"),
            false => format!(
                "needs {needed:.2} GB of disk at once, beyond --disk-cap {:.2}GB",
                self.plan.disk_cap as f64 / 1e9
            ),
        }
    }

    /// Every driver in its turn; each collects garbage before the first of them begins.
    fn repetition(
        &mut self,
        job: &TopicJob,
        repetition: u32,
        topic: &dyn Fn(&str) -> String,
    ) -> Result<(), RunEnd> {
        for at in 0..self.crew.len() {
            self.check_stop()?;
            if self.crew[at].pid().is_some() {
                let done = self.crew[at].collect_garbage(&self.reach);
                self.handle_failure(done)?;
            }
        }
        let all: Vec<usize> = (0..self.crew.len()).collect();
        let turns = match self.plan.profile.rotates() {
            true => rotation::round(&all, repetition as usize),
            false => all,
        };
        for (place, at) in turns.into_iter().enumerate() {
            let name = self.crew[at].name().to_owned();
            self.turn(job, repetition, (place, at), &topic(&name))?;
        }
        Ok(())
    }

    /// What one driver does in a repetition.
    fn turn(
        &mut self,
        job: &TopicJob,
        repetition: u32,
        (place, at): (usize, usize),
        topic: &str,
    ) -> Result<(), RunEnd> {
        let mut is_filled = job.topics == Topics::Shared;
        for &step in &job.steps {
            if !self.is_due(at, step, repetition) {
                continue;
            }
            if self.cells[step].work() == DriverOperation::Consume && !is_filled {
                // In the legacy profile each reads what it wrote, asked for or not.
                let filled = self.ask(step, at, topic, DriverOperation::Produce);
                if self.handle_failure(filled)?.is_none() {
                    continue;
                }
            }
            let mut sample = self.measure(step, at, topic)?;
            is_filled = true;
            sample.repetition = repetition;
            sample.place = u32::try_from(place).unwrap_or(u32::MAX);
            self.verify_produced(step, at, topic, &mut sample)?;
            let is_valid = sample.invalid.is_empty();
            self.journal.add(sample).map_err(RunEnd::Files)?;
            if !is_valid {
                // What was not written cannot be read.
                break;
            }
        }
        Ok(())
    }

    pub(super) fn broker_lives(&mut self) -> Result<(), RunEnd> {
        match self.broker.is_gone() {
            true => Err(RunEnd::Instrument(
                "the broker does not answer any more".to_owned(),
            )),
            false => Ok(()),
        }
    }

    pub(super) fn read_others(&mut self) {
        let pids: Vec<u32> = self.crew.iter().filter_map(DriverHandle::pid).collect();
        self.others.read(&pids);
    }

    pub(super) fn create(
        &mut self,
        topics: &[String],
        cell: &LibraryCellSpec,
    ) -> Result<(), RunEnd> {
        if self.is_resumed {
            // What an interrupted part left behind.
            self.broker
                .admin
                .delete_topics(topics)
                .map_err(RunEnd::admin)?;
        }
        let request_bytes = (cell.value_bytes + REQUEST_ROOM)
            .max(REQUEST_BYTES)
            .to_string();
        let configs = [
            // Nothing goes before it is deleted.
            ("retention.ms", "-1"),
            ("retention.bytes", "-1"),
            ("max.message.bytes", request_bytes.as_str()),
        ];
        let created = self.broker.admin.create_topics(topics, &configs);
        created.map_err(RunEnd::admin)
    }

    /// Deletes what was made; one that stays is not worth the run.
    pub(super) fn delete(&mut self, topics: &[String], cell: &LibraryCellSpec) {
        let bytes = cell.disk_bytes().saturating_mul(topics.len() as u64);
        self.disk.deleted(bytes);
        if let Err(error) = self.broker.admin.delete_topics(topics) {
            tracing::warn!(%error, "topics not deleted");
        }
    }

    /// Time for a command: timeout, and what the amount of data excuses.
    pub(super) fn scaled_command_timeout(&self, cell: &LibraryCellSpec) -> Duration {
        let schedule_s = cell
            .rate_per_s
            .map_or(0.0, |rate| cell.records as f64 / rate as f64);
        let moved_s =
            cell.bytes() as f64 / SLOW_BYTES_PER_S + cell.records as f64 / SLOW_RECORDS_PER_S;
        self.reach.timeout + Duration::from_secs_f64(schedule_s + moved_s)
    }

    pub(super) fn check_stop(&self) -> Result<(), RunEnd> {
        match self.reach.stop.load(Ordering::Relaxed) {
            true => Err(RunEnd::Interrupted),
            false => Ok(()),
        }
    }

    /// A line about a cell that has run: the median of each library.
    fn line(&self, step: usize) -> String {
        let cell = self.cells[step].to_run();
        let quantity = headline(self.plan.profile.name(), &cell);
        let parts: Vec<String> = self
            .crew
            .iter()
            .map(|member| {
                let samples = self.journal.samples().iter().filter(|sample| {
                    sample.cell == cell.name
                        && sample.driver == member.name()
                        && sample.invalid.is_empty()
                });
                let values: Vec<f64> = samples.filter_map(|sample| quantity.of(sample)).collect();
                match weir_stats::interval::median(&values) {
                    Some(median) => format!("{} {:.2} ms", member.name(), median.value / 1e3),
                    None => format!("{} -", member.name()),
                }
            })
            .collect();
        format!("{} ({}, medians)", parts.join(", "), quantity.title)
    }
}

/// A cell that a driver has refused so often is not asked of it again.
const REFUSALS_MAX: u32 = 3;
/// In place of a driver's name in topics that all read.
const SHARED: &str = "all";
const SLOW_BYTES_PER_S: f64 = 5e6;
const SLOW_RECORDS_PER_S: f64 = 5e3;
const REQUEST_BYTES: u64 = 1_048_588;
const REQUEST_ROOM: u64 = 65_536;
