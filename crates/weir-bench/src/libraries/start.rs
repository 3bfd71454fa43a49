//! Starts a run: checks the plan, starts broker and drivers, and writes the run directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use weir_drivers::cpu_affinity::{self, Cores};
use weir_drivers::host_usage::HostUsage;
use weir_drivers::{DriverError, DriverFailure, DriverProgram};
use weir_lab::LabOptions;
use weir_stats::utc;

use super::client_file::client_file;
use super::disk::Disk;
use super::driver_set::DriverHandle;
use super::estimate::TimeLeft;
use super::grid;
use super::job;
use super::journal::{DRIVERS, ResumeIdentity, RunJournal};
use super::pack::{pack, unpack};
use super::plan::LibrariesPlan;
use super::profile::DriverOperation;
use super::requested::{PlannedDriver, requested_drivers};
use super::result::{self, RunFacts};
use super::run_end::{CommandFailure, RunEnd, RunResult};
use super::runner::Runner;
use super::topics::TopicNames;
use crate::experiment::run_dir::SECOND_NS;
use crate::experiment::{RunBroker, RunDir};
use crate::plan::Valid;
use crate::{BenchError, BenchOptions, Finished, Observer, environment, settings};
use weir_stats::run::SettingGroup;

/// Runs the plan, or the rest of the run in the directory `resume`. When `stop` becomes true, the
/// drivers are ended and the results so far are written.
///
/// # Errors
/// [`BenchError`] if the plan or the directory is invalid, or if there is no broker or no driver.
pub fn run(
    plan: &Valid<LibrariesPlan>,
    options: &BenchOptions,
    resume: Option<&Path>,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Finished, BenchError> {
    let began = Instant::now();
    let cells = grid::cells(plan)?;
    let requested = requested_drivers(plan)?;
    let before = resume.map(ResumeIdentity::read).transpose()?;
    let mut identity = ResumeIdentity::of(plan);
    if let (Some(dir), Some(before)) = (resume, &before) {
        before.require_same(dir, &identity)?;
    }
    let driver_names: Vec<String> = requested.iter().map(|it| it.name.clone()).collect();
    let jobs = job::jobs(plan.profile, &cells);
    let with_topics = jobs.iter().map(|job| &cells[job.steps.start]);
    let names = TopicNames::new(plan, &utc::compact(0), with_topics, &driver_names)?;
    let run_dir = match (resume, &before) {
        (Some(dir), Some(before)) => RunDir::resume(dir, before.started_unix_ns, options, stop),
        _ => RunDir::create(&plan.name, options, stop)?,
    };
    identity.started_unix_ns = run_dir.started_unix_ns;
    let drivers_dir = run_dir.subdir(DRIVERS)?;
    unpack(&run_dir.path)?;
    let journal = RunJournal::open(&run_dir.path)?;

    let mut programs = Vec::new();
    for driver in requested {
        let program = driver.request.clone().build(&options.exe, observer, stop);
        if matches!(&program, Err(error) if matches!(error.reason, DriverFailure::Interrupted)) {
            return Err(RunEnd::Interrupted.before_first_cell());
        }
        programs.push((driver, program));
    }
    let broker = RunBroker::start(options, &LabOptions::default(), observer, stop)?;
    let lab_dir = broker.lab.as_ref().map(|lab| lab.dir());
    let mut runner = Runner {
        plan,
        run_dir: &run_dir,
        broker: &broker,
        client_file: client_file(&broker)?,
        host_usage: HostUsage::new(environment::cores(), broker.local_pids()),
        disk: Disk::new(plan.disk_cap, lab_dir),
        largest: grid::largest(&cells),
        left: TimeLeft::new(Duration::ZERO),
        cells,
        drivers: Vec::new(),
        journal,
        names: names.of_run(utc::compact(run_dir.started_unix_ns / SECOND_NS)),
        drivers_dir,
        is_resumed: resume.is_some(),
        began,
        rejections: BTreeMap::new(),
    };
    runner.start_drivers(programs, observer)?;
    let handles = runner.drivers.iter();
    let running = handles.filter(|handle| handle.pid().is_some());
    identity.libraries = running.map(|handle| handle.about.version()).collect();
    if let (Some(dir), Some(before)) = (resume, &before) {
        before.require_same(dir, &identity)?;
        let earlier = before.libraries.clone().into_iter();
        identity.libraries = earlier.chain(identity.libraries).collect();
    }
    identity.write(&run_dir.path)?;
    let resolved = runner.resolve_settings();
    resolved.map_err(RunEnd::before_first_cell)?;
    runner.require_driver("no driver accepted its settings")?;
    let cores = runner.pin_all();
    let ended = runner
        .warm_up_broker(observer)
        .and_then(|()| runner.warm_up(observer))
        .and_then(|()| runner.run_all(observer));
    runner.drivers.iter_mut().for_each(DriverHandle::end);
    let Runner {
        cells,
        drivers,
        journal,
        ..
    } = runner;
    let facts = RunFacts {
        plan,
        options,
        cluster: settings::cluster(SettingGroup::new("cluster"), &broker),
        cores,
        is_resumed: resume.is_some(),
        cells: &cells,
        drivers: drivers.into_iter().map(|handle| handle.about).collect(),
    };
    let described = run_dir.describe([&plan.name, &plan.title, &plan.question], None, &broker);
    let mut run = result::run(described, facts, journal.samples);
    result::conclude(&mut run, &ended);
    if let Err(error) = pack(&run_dir.path, &mut run) {
        run.warnings
            .push(format!("raw files are not compressed: {error}"));
    }
    let finished = run_dir.finish(run, broker)?;
    match ended {
        Err(RunEnd::Files(error)) => Err(error),
        _ => Ok(finished),
    }
}

impl Runner<'_> {
    /// Starts all drivers; those that do not start take no part.
    fn start_drivers(
        &mut self,
        programs: Vec<(PlannedDriver, Result<DriverProgram, DriverError>)>,
        observer: &mut dyn Observer,
    ) -> Result<(), BenchError> {
        for (driver, program) in programs {
            let name = driver.name;
            let limit = self.limit(self.plan.command_timeout);
            let started = match program.map(|program| program.renamed(&name)) {
                Ok(program) => DriverHandle::start(&program, &self.drivers_dir, limit),
                Err(error) => Ok(DriverHandle::absent(&name, error.to_string())),
            };
            let mut handle = started.map_err(RunEnd::before_first_cell)?;
            handle.about.optional = driver.is_optional;
            let about = &handle.about;
            observer.note(&match &about.failed {
                Some(reason) => format!("without {name}: {reason}"),
                None => format!("{name}: {}, {}", about.version().1, about.runtime),
            });
            self.drivers.push(handle);
        }
        self.require_driver("no driver could be started")
    }

    /// Returns an error with the reasons if no driver is left.
    fn require_driver(&self, problem: &str) -> Result<(), BenchError> {
        if self.drivers.iter().any(|handle| handle.pid().is_some()) {
            return Ok(());
        }
        let reasons = self.drivers.iter().map(|handle| {
            let reason = handle.about.failed.as_deref();
            format!("{}: {}", handle.name(), reason.unwrap_or_default())
        });
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        Err(BenchError::Libraries(format!("{problem}: {reasons}")))
    }

    /// Configures every driver once for each operation of the run, so that the effective settings
    /// are known.
    fn resolve_settings(&mut self) -> RunResult {
        for at in 0..self.drivers.len() {
            for &operation in DriverOperation::ALL {
                let mut run = self.cells.iter().filter(|spec| spec.cell.skipped.is_none());
                let is_used = run.any(|spec| spec.operation() == operation);
                if !is_used || self.drivers[at].pid().is_none() {
                    continue;
                }
                if let Err(CommandFailure::Rejected(reason)) = self.configure(at, operation)? {
                    self.drivers[at].give_up(reason);
                }
            }
        }
        Ok(())
    }

    /// Pins broker, drivers and this program to separate cores and returns them; `None` if there
    /// are too few cores.
    fn pin_all(&self) -> Option<Cores> {
        let cores = Cores::divide()?;
        let mut all = cpu_affinity::pin(std::process::id(), &cores.own);
        for pid in self.drivers.iter().filter_map(DriverHandle::pid) {
            all &= cpu_affinity::pin(pid, &cores.drivers);
        }
        for pid in self.broker.local_pids().into_iter().flatten() {
            all &= cpu_affinity::pin(pid, &cores.broker);
        }
        all.then_some(cores)
    }
}
