//! Starts a run: checks the plan, starts broker and drivers, and writes the run directory.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use weir_drivers::{BUILT_IN, DriverError, DriverFailure, DriverProgram, KNOWN, known};
use weir_lab::LabOptions;
use weir_stats::utc;

use super::cpu_affinity::{self, Cores};
use super::disk::Disk;
use super::driver_set::DriverHandle;
use super::grid;
use super::host_usage::HostUsage;
use super::job;
use super::journal::{DRIVERS, ResumeIdentity, RunJournal};
use super::plan::LibrariesPlan;
use super::profile::DriverOperation;
use super::result::{self, RunFacts};
use super::run_end::{CommandFailure, RunEnd, RunResult};
use super::runner::Runner;
use super::topics::TopicNames;
use super::warm_up::HELPER;
use crate::experiment::folder::SECOND_NS;
use crate::experiment::{RunBroker, RunFolder};
use crate::plan::Valid;
use crate::{BenchError, BenchOptions, Finished, Observer, environment};

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
    let driver_names: Vec<String> = requested.iter().map(|(name, _)| name.clone()).collect();
    let jobs = job::jobs(plan.profile, &cells);
    let with_topics = jobs.iter().map(|job| &cells[job.steps.start]);
    let names = TopicNames::new(plan, &utc::compact(0), with_topics, &driver_names)?;
    let folder = match (resume, &before) {
        (Some(dir), Some(before)) => RunFolder::resume(dir, before.started_unix_ns, options, stop),
        _ => RunFolder::create(&plan.name, options, stop)?,
    };
    identity.started_unix_ns = folder.started_unix_ns;
    let journal = RunJournal::open(&folder.dir)?;
    let drivers_dir = folder.subdir(DRIVERS)?;

    let mut programs = Vec::new();
    for (name, program) in requested {
        let program = program.build(&options.exe, observer, stop);
        if matches!(&program, Err(error) if matches!(error.reason, DriverFailure::Interrupted)) {
            return Err(RunEnd::Interrupted.before_first_cell());
        }
        programs.push((name, program));
    }
    let broker = RunBroker::start(options, &LabOptions::default(), observer, stop)?;
    let lab_dir = broker.lab.as_ref().map(|lab| lab.dir());
    let mut runner = Runner {
        plan,
        folder: &folder,
        broker: &broker,
        host_usage: HostUsage::new(environment::cores(), broker.local_pids()),
        disk: Disk::new(plan.disk_cap, lab_dir),
        largest: grid::largest(&cells),
        cells,
        drivers: Vec::new(),
        journal,
        names: names.of_run(utc::compact(folder.started_unix_ns / SECOND_NS)),
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
    identity.write(&folder.dir)?;
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
        bootstrap: &broker.bootstrap,
        cores,
        is_resumed: resume.is_some(),
        cells: &cells,
        drivers: drivers.into_iter().map(|handle| handle.about).collect(),
    };
    let described = folder.describe([&plan.name, &plan.title, &plan.question], None, &broker);
    let mut run = result::run(described, facts, journal.samples);
    result::conclude(&mut run, &ended);
    let finished = folder.finish(run, broker)?;
    match ended {
        Err(RunEnd::Files(error)) => Err(error),
        _ => Ok(finished),
    }
}

impl Runner<'_> {
    /// Starts all drivers; those that do not start take no part.
    fn start_drivers(
        &mut self,
        programs: Vec<(String, Result<DriverProgram, DriverError>)>,
        observer: &mut dyn Observer,
    ) -> Result<(), BenchError> {
        for (name, program) in programs {
            let limit = self.limit(self.plan.command_timeout);
            let started = match program.map(|program| program.renamed(&name)) {
                Ok(program) => DriverHandle::start(&program, &self.drivers_dir, limit),
                Err(error) => Ok(DriverHandle::absent(&name, error.to_string())),
            };
            let handle = started.map_err(RunEnd::before_first_cell)?;
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

#[derive(Debug, Clone)]
enum DriverRequest {
    /// Name of a driver whose source is part of this program.
    Library(String),
    /// Driver supplied by the user.
    Given(DriverProgram),
}

impl DriverRequest {
    /// Builds the driver if needed; a failure is reported.
    fn build(
        self,
        exe: &Path,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<DriverProgram, DriverError> {
        match self {
            Self::Given(program) => Ok(program),
            Self::Library(name) if name == BUILT_IN => Ok(DriverProgram::built_in(exe)),
            Self::Library(name) => {
                DriverProgram::known(&name, &mut |text| observer.note(text), stop)
            }
        }
    }
}

/// Returns the drivers of a plan with their names in the run, which are unique.
fn requested_drivers(plan: &LibrariesPlan) -> Result<Vec<(String, DriverRequest)>, BenchError> {
    let mut all: Vec<(String, DriverRequest)> = Vec::new();
    let library = |name: &str| (name.to_owned(), DriverRequest::Library(name.to_owned()));
    for name in &plan.libraries {
        if name == "all" {
            let tested = KNOWN.iter().filter(|known| known.is_tested);
            let first = all.len();
            all.extend(tested.map(|known| library(known.name)));
            all.insert(first + 1, library(BUILT_IN));
        } else if name == BUILT_IN || known(name).is_some() {
            all.push(library(name));
        } else {
            let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
            return Err(BenchError::Libraries(format!(
                "unknown library \"{name}\", expected {BUILT_IN}, {} or all; use --driver \
                 NAME=COMMAND for your own driver",
                names.join(", ")
            )));
        }
    }
    for text in &plan.drivers {
        let given = DriverProgram::given(text);
        let given = given.map_err(|error| BenchError::Libraries(error.to_string()))?;
        all.push((given.name.clone(), DriverRequest::Given(given)));
    }
    if plan.null_test {
        // Invariant: the plan names at least one driver.
        let (name, first) = all.swap_remove(0);
        let sides = ["a", "b"].map(|side| (format!("{name}-{side}"), first.clone()));
        all = sides.into();
    }
    for (at, (name, _)) in all.iter().enumerate() {
        if name == HELPER || all[..at].iter().any(|(other, _)| other == name) {
            return Err(BenchError::Libraries(format!(
                "driver name \"{name}\" is used twice: give every driver a unique name"
            )));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::super::plan::LibrariesOverrides;
    use super::*;

    fn names(overrides: LibrariesOverrides) -> Result<Vec<String>, String> {
        let plan = LibrariesPlan::built_in().unwrap();
        let plan = plan.with(overrides, "test").unwrap();
        let all = requested_drivers(&plan).map_err(|error| error.to_string())?;
        Ok(all.into_iter().map(|(name, _)| name).collect())
    }

    fn libraries(names: &[&str]) -> LibrariesOverrides {
        LibrariesOverrides {
            libraries: Some(names.iter().map(|it| (*it).to_owned()).collect()),
            ..LibrariesOverrides::default()
        }
    }

    #[test]
    fn drivers_are_found_by_name_in_order() {
        assert_eq!(
            names(LibrariesOverrides::default()).unwrap(),
            ["java", "librdkafka", "franz-go"]
        );
        let all = names(libraries(&["all"])).unwrap();
        assert_eq!(all[..3], ["java", "librdkafka", "franz-go"]);
        assert!(all.iter().any(|name| name == "kafkajs"));
        assert!(!all.iter().any(|name| name.starts_with("dotnet")));
        let with_own = LibrariesOverrides {
            drivers: Some(vec!["mine=./driver".to_owned()]),
            ..libraries(&["librdkafka"])
        };
        assert_eq!(names(with_own).unwrap(), ["librdkafka", "mine"]);
    }

    #[test]
    fn aa_test_has_first_driver_twice() {
        let null_test = LibrariesOverrides {
            null_test: Some(true),
            ..libraries(&["librdkafka", "java"])
        };
        assert_eq!(names(null_test).unwrap(), ["librdkafka-a", "librdkafka-b"]);
    }

    #[test]
    fn invalid_driver_names_are_rejected_with_remedy() {
        let unknown = names(libraries(&["sarama"])).unwrap_err();
        assert!(
            unknown.contains("sarama") && unknown.contains("--driver NAME=COMMAND"),
            "{unknown}"
        );
        let repeated = names(libraries(&["java", "java"])).unwrap_err();
        assert!(repeated.contains("\"java\" is used twice"), "{repeated}");
        let wrong = LibrariesOverrides {
            drivers: Some(vec!["mine".to_owned()]),
            ..libraries(&["librdkafka"])
        };
        assert!(names(wrong).unwrap_err().contains("NAME=COMMAND"));
    }
}
