//! Starts a run: checks the plan, starts broker and drivers, and writes the run directory.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use weir_drivers::{DriverFailure, DriverProgram, KNOWN, known};
use weir_stats::utc;

use super::super::{BenchError, BenchOptions, Finished, Observer, environment};
use super::broker::LibraryBroker;
use super::cpu_affinity::{self, Cores};
use super::disk::Disk;
use super::driver_set::{CommandFailure, DriverEnv, DriverHandle};
use super::grid::{self, LibraryCellSpec};
use super::host_usage::HostUsage;
use super::job;
use super::journal::{DRIVERS, ResumeIdentity, RunJournal};
use super::operation::DriverOperation;
use super::plan::LibrariesPlan;
use super::result;
use super::runner::{RunEnd, Runner};
use super::topics::TopicNames;
use crate::experiment::RunFolder;
use crate::experiment::folder::SECOND_NS;
use weir_load::clock::Clock;

/// Driver that the plan requests.
#[derive(Debug, Clone)]
enum DriverRequest {
    /// Driver that is part of this program.
    BuiltIn(String),
    /// Driver whose source is part of this program: its name, and its name in this run.
    Known(String, String),
    /// Driver supplied by the user.
    Given(DriverProgram),
}

impl DriverRequest {
    fn name(&self) -> &str {
        match self {
            Self::BuiltIn(name) | Self::Known(_, name) => name,
            Self::Given(program) => &program.name,
        }
    }

    fn renamed(self, name: &str) -> Self {
        match self {
            Self::BuiltIn(_) => Self::BuiltIn(name.to_owned()),
            Self::Known(known, _) => Self::Known(known, name.to_owned()),
            Self::Given(program) => Self::Given(program.renamed(name)),
        }
    }
}

pub(super) fn run(
    plan: &LibrariesPlan,
    options: &BenchOptions,
    resume: Option<&Path>,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Finished, BenchError> {
    let (clock, started) = (Clock::start(), Instant::now());
    let machine = environment::machine();
    let cells = grid::cells(plan).map_err(BenchError::Libraries)?;
    let requested = requested_drivers(plan).map_err(BenchError::Libraries)?;
    let before = resume.map(ResumeIdentity::read).transpose()?;
    let mut identity = ResumeIdentity {
        started_unix_ns: before
            .as_ref()
            .map_or_else(|| clock.now_unix_ns(), |it| it.started_unix_ns),
        weir_version: env!("CARGO_PKG_VERSION").to_owned(),
        plan: plan.identity(),
        libraries: BTreeMap::new(),
    };
    if let (Some(dir), Some(before)) = (resume, &before) {
        check_identity(dir, before, &identity)?;
    }
    let started_s = identity.started_unix_ns / SECOND_NS;
    let run_id = utc::compact(started_s);
    let names = TopicNames::new(plan, &run_id);
    let driver_names: Vec<String> = requested.iter().map(|it| it.name().to_owned()).collect();
    let jobs = job::jobs(plan.profile, &cells);
    let with_topics = jobs.iter().map(|job| &cells[job.steps[0]]);
    names
        .check(with_topics, &driver_names)
        .map_err(BenchError::Libraries)?;
    let dir = match resume {
        Some(dir) => dir.to_owned(),
        None => RunFolder::create(&plan.name, options, stop)?.dir,
    };
    let journal = RunJournal::open(&dir)?;
    let drivers_dir = dir.join(DRIVERS);
    fs::create_dir_all(&drivers_dir).map_err(|error| BenchError::file(&drivers_dir, error))?;

    let programs = build(&requested, &options.exe, observer, stop)?;
    let mut broker = LibraryBroker::start(options, observer, stop)?;
    let bootstrap = broker.bootstrap.clone();
    let env = DriverEnv {
        bootstrap: &bootstrap,
        profile: plan.profile.name(),
        timeout: plan.command_timeout,
        stop,
    };
    let mut drivers = start_drivers(programs, &drivers_dir, &env, observer)?;
    identity.libraries = versions(&drivers);
    if let (Some(dir), Some(before)) = (resume, &before) {
        check_identity(dir, before, &identity)?;
        let earlier = before.libraries.clone().into_iter();
        identity.libraries = earlier.chain(identity.libraries).collect();
    }
    identity.write(&dir)?;
    let largest = grid::largest(&cells);
    resolve_settings(plan, &cells, &mut drivers, largest, &env)?;
    let cores = pin_all(&broker, &drivers);
    let kafka_version = broker.kafka_version();
    let mut runner = Runner {
        plan,
        exe: &options.exe,
        env,
        host_usage: HostUsage::new(environment::cores(), broker.pids.clone()),
        disk: Disk::new(plan.disk_cap, broker.topics_dir().as_deref()),
        broker: &mut broker,
        cells,
        drivers,
        journal,
        names,
        run_id,
        drivers_dir,
        clock,
        started_unix_ns: identity.started_unix_ns,
        is_resumed: resume.is_some(),
        largest,
        began: started,
        rejections: BTreeMap::new(),
    };
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
    let facts = result::RunFacts {
        plan,
        options,
        bootstrap: &bootstrap,
        kafka_version,
        cores,
        is_resumed: resume.is_some(),
        machine,
        started_s,
        finished_s: clock.now_unix_ns() / SECOND_NS,
    };
    let about = drivers.into_iter().map(|handle| handle.about).collect();
    let mut run = result::run(&facts, &cells, about, journal.into_samples());
    result::conclude(&mut run, &ended);
    if let Err(error) = broker.down() {
        run.warnings
            .push(format!("the broker did not shut down cleanly: {error}"));
    }
    let finished = Finished { dir, run };
    finished.write()?;
    match ended {
        Err(RunEnd::Files(error)) => Err(error),
        _ => Ok(finished),
    }
}

/// Returns an error if the configuration differs from that of the run to resume.
fn check_identity(
    dir: &Path,
    before: &ResumeIdentity,
    now: &ResumeIdentity,
) -> Result<(), BenchError> {
    let differences = before.differences(now);
    match differences.is_empty() {
        true => Ok(()),
        false => Err(BenchError::Resume {
            dir: dir.to_owned(),
            differences: differences.join("; "),
        }),
    }
}

/// Returns the drivers of a plan; their names must be unique.
fn requested_drivers(plan: &LibrariesPlan) -> Result<Vec<DriverRequest>, String> {
    let mut all = Vec::new();
    for name in &plan.libraries {
        match name.as_str() {
            "all" => all.extend(tested_drivers()),
            BUILT_IN => all.push(DriverRequest::BuiltIn(name.clone())),
            _ if known(name).is_some() => {
                all.push(DriverRequest::Known(name.clone(), name.clone()))
            }
            _ => {
                let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
                return Err(format!(
                    "unknown library \"{name}\", expected {BUILT_IN}, {} or all; use --driver \
                     NAME=COMMAND for your own driver",
                    names.join(", ")
                ));
            }
        }
    }
    for text in &plan.drivers {
        let given = DriverProgram::given(text).map_err(|error| error.to_string())?;
        all.push(DriverRequest::Given(given));
    }
    if plan.null_test {
        // Invariant: the plan names at least one driver.
        let first = all.swap_remove(0);
        let names = ["a", "b"].map(|side| format!("{}-{side}", first.name()));
        all = names.map(|name| first.clone().renamed(&name)).to_vec();
    }
    for (at, driver) in all.iter().enumerate() {
        let name = driver.name();
        if name == super::warm_up::HELPER || all[..at].iter().any(|other| other.name() == name) {
            return Err(format!(
                "driver name \"{name}\" is used twice: give every driver a unique name"
            ));
        }
    }
    Ok(all)
}

/// Returns the drivers that are part of this program and tested.
fn tested_drivers() -> impl Iterator<Item = DriverRequest> {
    let known = KNOWN.iter().filter(|known| known.is_tested);
    let mut all: Vec<DriverRequest> = known
        .map(|known| DriverRequest::Known(known.name.to_owned(), known.name.to_owned()))
        .collect();
    all.insert(
        1.min(all.len()),
        DriverRequest::BuiltIn(BUILT_IN.to_owned()),
    );
    all.into_iter()
}

/// Programs of the drivers, or name and reason if there is none.
type Programs = Vec<Result<DriverProgram, (String, String)>>;

fn build(
    requested: &[DriverRequest],
    exe: &Path,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Programs, BenchError> {
    let mut programs = Vec::new();
    for driver in requested {
        let program = match driver {
            DriverRequest::BuiltIn(name) => Ok(DriverProgram::built_in(exe).renamed(name)),
            DriverRequest::Given(program) => Ok(program.clone()),
            DriverRequest::Known(known, name) => {
                let built = DriverProgram::known(known, &mut |text| observer.note(text), stop);
                match built {
                    Ok(program) => Ok(program.renamed(name)),
                    Err(error) if matches!(error.reason, DriverFailure::Interrupted) => {
                        return Err(interrupted());
                    }
                    Err(error) => {
                        observer.note(&format!("without {name}: {error}"));
                        Err((name.clone(), error.to_string()))
                    }
                }
            }
        };
        programs.push(program);
    }
    Ok(programs)
}

fn interrupted() -> BenchError {
    BenchError::Libraries("interrupted before the first cell".to_owned())
}

/// Starts all drivers; those that do not start take no part.
fn start_drivers(
    programs: Programs,
    dir: &Path,
    env: &DriverEnv<'_>,
    observer: &mut dyn Observer,
) -> Result<Vec<DriverHandle>, BenchError> {
    let mut drivers = Vec::new();
    for program in programs {
        let handle = match program {
            Ok(program) => DriverHandle::start(&program, dir, env).map_err(|_| interrupted())?,
            Err((name, reason)) => DriverHandle::absent(&name, reason),
        };
        let about = &handle.about;
        match &about.failed {
            Some(reason) => observer.note(&format!("without {}: {reason}", about.name)),
            None => observer.note(&format!(
                "{}: {} {}, {}",
                about.name, about.library, about.library_version, about.runtime
            )),
        }
        drivers.push(handle);
    }
    match drivers.iter().any(|handle| handle.pid().is_some()) {
        true => Ok(drivers),
        false => Err(BenchError::Libraries(format!(
            "no driver could be started: {}",
            failures(&drivers)
        ))),
    }
}

fn failures(drivers: &[DriverHandle]) -> String {
    let failed = drivers.iter().filter_map(|handle| {
        let reason = handle.about.failed.as_deref()?;
        Some(format!("{}: {reason}", handle.name()))
    });
    failed.collect::<Vec<_>>().join("; ")
}

fn versions(drivers: &[DriverHandle]) -> BTreeMap<String, String> {
    let running = drivers.iter().filter(|handle| handle.pid().is_some());
    running
        .map(|handle| {
            let about = &handle.about;
            let text = format!("{} {}", about.library, about.library_version);
            (about.name.clone(), text)
        })
        .collect()
}

/// Configures every driver once for each operation of the run, so that the effective settings are
/// known.
fn resolve_settings(
    plan: &LibrariesPlan,
    cells: &[LibraryCellSpec],
    drivers: &mut [DriverHandle],
    largest: super::profile::Largest,
    env: &DriverEnv<'_>,
) -> Result<(), BenchError> {
    for handle in drivers.iter_mut().filter(|handle| handle.pid().is_some()) {
        for operation in [
            DriverOperation::Produce,
            DriverOperation::Consume,
            DriverOperation::RoundTrip,
        ] {
            let mut run = cells.iter().filter(|cell| cell.skipped.is_none());
            if !run.any(|cell| cell.operation() == operation) {
                continue;
            }
            let settings = plan
                .profile
                .settings(handle.name(), operation, plan.acks, largest);
            match handle.configure(&settings, operation, env) {
                Ok(()) => {}
                Err(CommandFailure::Interrupted) => return Err(interrupted()),
                Err(CommandFailure::GivenUp(_)) => break,
                Err(CommandFailure::Rejected(reason)) => {
                    handle.give_up(reason);
                    break;
                }
            }
        }
    }
    match drivers.iter().any(|handle| handle.pid().is_some()) {
        true => Ok(()),
        false => Err(BenchError::Libraries(format!(
            "no driver accepted its settings: {}",
            failures(drivers)
        ))),
    }
}

/// Pins broker, drivers and this program to separate cores and returns them; `None` if there are
/// too few cores.
fn pin_all(broker: &LibraryBroker, drivers: &[DriverHandle]) -> Option<Cores> {
    let cores = Cores::divide()?;
    let pids = drivers.iter().filter_map(DriverHandle::pid);
    let mut all = cpu_affinity::pin(std::process::id(), &cores.own);
    for pid in pids {
        all &= cpu_affinity::pin(pid, &cores.drivers);
    }
    for pid in broker.pids.iter().flatten() {
        all &= cpu_affinity::pin(*pid, &cores.broker);
    }
    all.then_some(cores)
}

/// Name of the driver that is part of this program.
const BUILT_IN: &str = "librdkafka";

#[cfg(test)]
mod tests {
    use super::super::plan::LibrariesOverrides;
    use super::*;

    fn names(overrides: LibrariesOverrides) -> Result<Vec<String>, String> {
        let plan = LibrariesPlan::built_in().unwrap();
        let plan = plan.with(overrides, "test").unwrap();
        let all = requested_drivers(&plan)?;
        Ok(all.iter().map(|it| it.name().to_owned()).collect())
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
