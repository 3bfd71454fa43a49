//! From a plan to a run folder: what is checked before anything starts, what is started, and what is written in the end.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use weir_drivers::{DriverFailure, DriverProgram, KNOWN, known};
use weir_stats::utc;

use super::super::{
    BenchError, BenchOptions, Finished, Observer, SECOND_NS, environment, run_dir, write_run,
};
use super::broker::LibraryBroker;
use super::disk::Disk;
use super::driver_set::{DriverEnv, DriverHandle, Failed};
use super::grid::{self, DriverOperation, LibraryCellSpec};
use super::job;
use super::journal::{ResumeIdentity, RunJournal};
use super::others::HostUsage;
use super::pin::{self, Cores};
use super::plan::LibrariesPlan;
use super::result;
use super::runner::{RunEnd, Runner};
use super::topics::Names;
use weir_load::clock::Clock;

/// A driver that is asked for.
#[derive(Debug, Clone)]
enum DriverRequest {
    /// The one in this program.
    BuiltIn(String),
    /// One whose source is in this program, and its name in this run.
    Known(String, String),
    /// One of the user's.
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
    let (clock, began) = (Clock::start(), Instant::now());
    let machine = environment::machine();
    let cells = grid::cells(plan).map_err(BenchError::Libraries)?;
    let wanted = wanted(plan).map_err(BenchError::Libraries)?;
    let before = resume.map(ResumeIdentity::read).transpose()?;
    let mut configuration = ResumeIdentity {
        started_unix_ns: before
            .as_ref()
            .map_or_else(|| clock.now_unix_ns(), |it| it.started_unix_ns),
        weir_version: env!("CARGO_PKG_VERSION").to_owned(),
        plan: plan.identity(),
        libraries: BTreeMap::new(),
    };
    if let (Some(dir), Some(before)) = (resume, &before) {
        same(dir, before, &configuration)?;
    }
    let started_s = configuration.started_unix_ns / SECOND_NS;
    let run_id = utc::compact(started_s);
    let names = Names::new(plan, &run_id);
    let driver_names: Vec<String> = wanted.iter().map(|it| it.name().to_owned()).collect();
    let jobs = job::jobs(plan.profile, &cells);
    let with_topics = jobs.iter().map(|job| &cells[job.steps[0]]);
    names
        .check(with_topics, &driver_names)
        .map_err(BenchError::Libraries)?;
    let dir = match resume {
        Some(dir) => dir.to_owned(),
        None => run_dir(&options.out, started_s, &plan.name)?,
    };
    let journal = RunJournal::open(&dir)?;
    let drivers_dir = dir.join(DRIVERS);
    fs::create_dir_all(&drivers_dir).map_err(|error| BenchError::file(&drivers_dir, error))?;

    let programs = build(&wanted, &options.exe, observer, stop)?;
    let mut broker = LibraryBroker::start(options, observer, stop)?;
    let bootstrap = broker.bootstrap.clone();
    let reach = DriverEnv {
        bootstrap: &bootstrap,
        profile: plan.profile.name(),
        timeout: plan.command_timeout,
        stop,
    };
    let mut crew = start_drivers(programs, &drivers_dir, &reach, observer)?;
    configuration.libraries = versions(&crew);
    if let (Some(dir), Some(before)) = (resume, &before) {
        same(dir, before, &configuration)?;
        let earlier = before.libraries.clone().into_iter();
        configuration.libraries = earlier.chain(configuration.libraries).collect();
    }
    configuration.write(&dir)?;
    let largest = grid::largest(&cells);
    settle(plan, &cells, &mut crew, largest, &reach)?;
    let cores = pin_all(&broker, &crew);
    let kafka_version = broker.kafka_version();
    let mut runner = Runner {
        plan,
        exe: &options.exe,
        reach,
        others: HostUsage::new(environment::cores(), broker.pids.clone()),
        disk: Disk::new(plan.disk_cap, broker.folder().as_deref()),
        broker: &mut broker,
        cells,
        crew,
        journal,
        names,
        run_id,
        drivers_dir,
        clock,
        started_unix_ns: configuration.started_unix_ns,
        is_resumed: resume.is_some(),
        largest,
        began,
        refusals: BTreeMap::new(),
    };
    let ended = runner
        .preheat(observer)
        .and_then(|()| runner.warm_up(observer))
        .and_then(|()| runner.run_all(observer));
    runner.crew.iter_mut().for_each(DriverHandle::end);
    let Runner {
        cells,
        crew,
        journal,
        ..
    } = runner;
    let knowledge = result::RunFacts {
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
    let about = crew.into_iter().map(|member| member.about).collect();
    let mut run = result::run(&knowledge, &cells, about, journal.into_samples());
    result::conclude(&mut run, &ended);
    if let Err(error) = broker.down() {
        run.warnings
            .push(format!("the broker did not stop in order: {error}"));
    }
    write_run(&dir, &run)?;
    match ended {
        Err(RunEnd::Files(error)) => Err(error),
        _ => Ok(Finished { dir, run }),
    }
}

/// Refuses to go on with anything but what was begun.
fn same(dir: &Path, before: &ResumeIdentity, now: &ResumeIdentity) -> Result<(), BenchError> {
    let differences = before.differences(now);
    match differences.is_empty() {
        true => Ok(()),
        false => Err(BenchError::Resume {
            dir: dir.to_owned(),
            differences: differences.join("; "),
        }),
    }
}

/// The drivers of a plan, each with a name of its own.
fn wanted(plan: &LibrariesPlan) -> Result<Vec<DriverRequest>, String> {
    let mut all = Vec::new();
    for name in &plan.libraries {
        match name.as_str() {
            "all" => all.extend(shipped()),
            BUILT_IN => all.push(DriverRequest::BuiltIn(name.clone())),
            _ if known(name).is_some() => {
                all.push(DriverRequest::Known(name.clone(), name.clone()))
            }
            _ => {
                let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
                return Err(format!(
                    "unknown library \"{name}\": there are {BUILT_IN}, {}, and all; a driver of your own is given \
                     with --driver NAME=COMMAND",
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
        // Invariant: the plan names at least one.
        let first = all.swap_remove(0);
        let names = ["a", "b"].map(|side| format!("{}-{side}", first.name()));
        all = names.map(|name| first.clone().renamed(&name)).to_vec();
    }
    for (at, driver) in all.iter().enumerate() {
        let name = driver.name();
        if name == super::warm::HELPER || all[..at].iter().any(|other| other.name() == name) {
            return Err(format!(
                "driver \"{name}\" is there twice: give each a name of its own"
            ));
        }
    }
    Ok(all)
}

/// Those that come with this program and are tested.
fn shipped() -> impl Iterator<Item = DriverRequest> {
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

/// Programs, or why there is none.
type Programs = Vec<Result<DriverProgram, (String, String)>>;

fn build(
    wanted: &[DriverRequest],
    exe: &Path,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Programs, BenchError> {
    let mut programs = Vec::new();
    for driver in wanted {
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
    BenchError::Libraries("interrupted before anything was measured".to_owned())
}

/// Starts all drivers; those that do not start take no part.
fn start_drivers(
    programs: Programs,
    folder: &Path,
    reach: &DriverEnv<'_>,
    observer: &mut dyn Observer,
) -> Result<Vec<DriverHandle>, BenchError> {
    let mut crew = Vec::new();
    for program in programs {
        let member = match program {
            Ok(program) => {
                DriverHandle::start(&program, folder, reach).map_err(|_| interrupted())?
            }
            Err((name, why)) => DriverHandle::absent(&name, why),
        };
        let about = &member.about;
        match &about.failed {
            Some(why) => observer.note(&format!("without {}: {why}", about.name)),
            None => observer.note(&format!(
                "{}: {} {}, {}",
                about.name, about.library, about.library_version, about.runtime
            )),
        }
        crew.push(member);
    }
    match crew.iter().any(|member| member.pid().is_some()) {
        true => Ok(crew),
        false => Err(BenchError::Libraries(format!(
            "no driver could be started: {}",
            failures(&crew)
        ))),
    }
}

fn failures(crew: &[DriverHandle]) -> String {
    let failed = crew.iter().filter_map(|member| {
        let why = member.about.failed.as_deref()?;
        Some(format!("{}: {why}", member.name()))
    });
    failed.collect::<Vec<_>>().join("; ")
}

fn versions(crew: &[DriverHandle]) -> BTreeMap<String, String> {
    let running = crew.iter().filter(|member| member.pid().is_some());
    running
        .map(|member| {
            let about = &member.about;
            let text = format!("{} {}", about.library, about.library_version);
            (about.name.clone(), text)
        })
        .collect()
}

/// Has every driver take the settings of all works of the run once, so that what they become is known.
fn settle(
    plan: &LibrariesPlan,
    cells: &[LibraryCellSpec],
    crew: &mut [DriverHandle],
    largest: super::profile::Largest,
    reach: &DriverEnv<'_>,
) -> Result<(), BenchError> {
    for member in crew.iter_mut().filter(|member| member.pid().is_some()) {
        for work in [
            DriverOperation::Produce,
            DriverOperation::Consume,
            DriverOperation::RoundTrip,
        ] {
            let mut run = cells.iter().filter(|cell| cell.skipped.is_none());
            if !run.any(|cell| cell.work() == work) {
                continue;
            }
            let settings = plan
                .profile
                .settings(member.name(), work, plan.acks, largest);
            match member.configure(&settings, work, reach) {
                Ok(()) => {}
                Err(Failed::Interrupted) => return Err(interrupted()),
                Err(Failed::GivenUp(_)) => break,
                Err(Failed::Refused(why)) => {
                    member.give_up(why);
                    break;
                }
            }
        }
    }
    match crew.iter().any(|member| member.pid().is_some()) {
        true => Ok(()),
        false => Err(BenchError::Libraries(format!(
            "no driver took its settings: {}",
            failures(crew)
        ))),
    }
}

/// Gives broker, drivers and this program cores of their own, where there are enough; how many each has then.
fn pin_all(broker: &LibraryBroker, crew: &[DriverHandle]) -> Option<Cores> {
    let cores = Cores::share_out()?;
    let pids = crew.iter().filter_map(DriverHandle::pid);
    let mut all = pin::pin(std::process::id(), &cores.own);
    for pid in pids {
        all &= pin::pin(pid, &cores.drivers);
    }
    for pid in broker.pids.iter().flatten() {
        all &= pin::pin(*pid, &cores.broker);
    }
    all.then_some(cores)
}

/// Folder with what drivers say.
pub(super) const DRIVERS: &str = "drivers";
/// Name of the driver that this program has in itself.
const BUILT_IN: &str = "librdkafka";

#[cfg(test)]
mod tests {
    use super::super::plan::LibrariesOverrides;
    use super::*;

    fn names(overrides: LibrariesOverrides) -> Result<Vec<String>, String> {
        let plan = LibrariesPlan::built_in().unwrap();
        let plan = plan.with(&overrides, "test").unwrap();
        let all = wanted(&plan)?;
        Ok(all.iter().map(|it| it.name().to_owned()).collect())
    }

    fn libraries(names: &[&str]) -> LibrariesOverrides {
        LibrariesOverrides {
            libraries: Some(names.iter().map(|it| (*it).to_owned()).collect()),
            ..LibrariesOverrides::default()
        }
    }

    #[test]
    fn drivers_are_known_by_name_and_stand_in_order() {
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
    fn a_null_test_has_the_first_twice() {
        let null_test = LibrariesOverrides {
            null_test: Some(true),
            ..libraries(&["librdkafka", "java"])
        };
        assert_eq!(names(null_test).unwrap(), ["librdkafka-a", "librdkafka-b"]);
    }

    #[test]
    fn names_that_do_not_work_are_told_with_the_remedy() {
        let unknown = names(libraries(&["sarama"])).unwrap_err();
        assert!(
            unknown.contains("sarama") && unknown.contains("--driver NAME=COMMAND"),
            "{unknown}"
        );
        let twice = names(libraries(&["java", "java"])).unwrap_err();
        assert!(twice.contains("\"java\" is there twice"), "{twice}");
        let wrong = LibrariesOverrides {
            drivers: Some(vec!["mine".to_owned()]),
            ..libraries(&["librdkafka"])
        };
        assert!(names(wrong).unwrap_err().contains("NAME=COMMAND"));
    }
}
