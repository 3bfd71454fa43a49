//! Runs plans: starts one process per role for each cell, measures, and writes the run directory.

mod cell;
mod child;
mod collect;
mod derived;
mod environment;
mod error;
mod figure_names;
mod find_max;
mod gateway;
mod import;
mod ladder;
pub mod libraries;
mod observer;
pub mod overhead;
pub mod plan;
mod probe;
mod quality;
mod result;
mod rotation;
mod saturation;
mod search;
mod serve;
mod stages;
mod sweep;
mod usage;
#[cfg(test)]
mod validation_tests;
mod verdict;
mod workers;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_kafka::Admin;
use weir_lab::{Lab, LabOptions};
use weir_stats::compare::{self, CompareOptions};
use weir_stats::run::{
    Cell, CellStatus, FILE_NAME, FindMax, FindMaxOutcome, Run, RunFile, RunOutcome, SCHEMA,
    SettingGroup,
};
use weir_stats::utc;

use cell::{CellContext, CellSpec};
use ladder::{HostLimits, Ladder};
use plan::{Architecture, Plan};
use weir_load::clients::descriptors_allowed;
use weir_load::clock::Clock;

pub use error::BenchError;
pub use find_max::{FindMaxOptions, Variable};
pub use import::import;
pub use observer::{Live, Observer};
pub use serve::{LiveEndpoints, serve_until};
pub use sweep::consumer_row;

/// Options of a run.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Parent directory of the run directory.
    pub out: PathBuf,
    /// Bootstrap servers of a running cluster; `None`: start a broker for the run and stop it
    /// afterwards.
    pub bootstrap: Option<String>,
    /// Path of this program.
    pub exe: PathBuf,
    /// Command line as typed.
    pub command_line: Vec<String>,
}

/// Completed run: its directory and the content of `run.json`.
#[derive(Debug)]
pub struct Finished {
    /// Run directory.
    pub dir: PathBuf,
    /// Content of `run.json`.
    pub run: Run,
}

impl Finished {
    /// Writes `run.json` again after additions to `run`.
    ///
    /// # Errors
    /// [`BenchError`] if the file cannot be written.
    pub fn write(&self) -> Result<(), BenchError> {
        write_run(&self.dir, &self.run)
    }
}

/// Runs `plan`. When `stop` becomes true, the current cell is cut short, all processes shut down
/// cleanly and the results so far are written.
///
/// # Errors
/// [`BenchError`] if there is no broker or the run directory cannot be written; no process keeps
/// running.
pub fn run(
    plan: &Plan,
    options: &BenchOptions,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Finished, BenchError> {
    measure(
        plan,
        options,
        observer,
        stop,
        |context, limits, observer| match sweep::of(plan) {
            Some(sweep) => (sweep::run(context, sweep, observer), None),
            None => (run_cells(context, limits, observer), None),
        },
    )
}

/// Searches for the maximum sustained load of `plan`. An interrupted search has no result.
///
/// # Errors
/// [`BenchError`] if there is no broker or the run directory cannot be written; no process keeps
/// running.
pub fn find_max(
    plan: &Plan,
    search: &FindMaxOptions,
    options: &BenchOptions,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Finished, BenchError> {
    measure(
        plan,
        options,
        observer,
        stop,
        |context, limits, observer| {
            let (cells, find_max) = find_max::run(context, limits, search, observer);
            (cells, Some(find_max))
        },
    )
}

/// Results of the part of a run between starting the broker and writing the run file.
type CellRunner = (Vec<Cell>, Option<FindMax>);

fn measure(
    plan: &Plan,
    options: &BenchOptions,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
    work: impl FnOnce(&CellContext<'_>, &HostLimits, &mut dyn Observer) -> CellRunner,
) -> Result<Finished, BenchError> {
    let clock = Clock::start();
    let started_s = clock.now_unix_ns() / SECOND_NS;
    let dir = run_dir(&options.out, started_s, &plan.name)?;
    let mut broker = RunBroker::start(options, observer, stop)?;
    let admin = Admin::connect(&broker.bootstrap, ADMIN_TIMEOUT)?;
    let sdk = probe::Sdk::find(plan, observer, stop);
    let producers_preferred = AtomicBool::new(true);
    let context = CellContext {
        plan,
        exe: options.exe.clone(),
        dir: dir.clone(),
        bootstrap: broker.bootstrap.clone(),
        broker_pids: broker.pids.clone(),
        admin: &admin,
        sdk: &sdk,
        stop,
        producers_preferred: &producers_preferred,
        clock,
        started_unix_ns: started_s * SECOND_NS,
    };
    if broker.lab.is_some() && sweep::of(plan).is_none() {
        warm_up_broker(&context, observer);
    }
    let (cells, find_max) = work(&context, &broker.limits, observer);
    let mut run = describe(plan, options, cells, &broker);
    run.find_max = find_max;
    run.comparisons = compare::variants(&run, &CompareOptions::default());
    run.started_utc = utc::rfc3339(started_s);
    run.finished_utc = utc::rfc3339(clock.now_unix_ns() / SECOND_NS);
    run.files = files(&run.cells);
    run.files.extend(sweep::files(&dir));
    run.derived = match plan.sweep {
        Some(_) => sweep::derived(&run.cells),
        None => derived::of(plan, &run.cells),
    };
    let nice = match producers_preferred.into_inner() {
        true => child::PREFERRED_NICE,
        false => {
            let text = "the producers ran without priority over the processes they load: raising \
                        it was not permitted (CAP_SYS_NICE)";
            run.notes.push(text.to_owned());
            0
        }
    };
    let processes = SettingGroup::new("processes")
        .with("producers_nice", nice)
        .with("optimized", !cfg!(debug_assertions));
    run.settings.push(processes);
    conclude(&mut run, plan, stop.load(Ordering::Relaxed));
    if let Err(error) = broker.down() {
        run.warnings
            .push(format!("the broker did not shut down cleanly: {error}"));
    }
    write_run(&dir, &run)?;
    Ok(Finished { dir, run })
}

/// Puts load on a new broker so that the JVM compiles its hot paths before the first cell. The
/// result is written as repetition 0 and not used.
fn warm_up_broker(context: &CellContext<'_>, observer: &mut dyn Observer) {
    let length = context.plan.broker_warm_up;
    if length.is_zero() || context.stop.load(Ordering::Relaxed) {
        return;
    }
    observer.note(&format!(
        "warming up the broker for {} s",
        length.as_secs_f64()
    ));
    let mut plan = context.plan.clone();
    (plan.warm_up, plan.hold) = (Duration::ZERO, length);
    // Groups exercise everything that plain consumers do, and the group coordinator.
    let groups = plan.architectures.contains(&Architecture::Groups);
    let spec = CellSpec {
        architecture: match groups {
            true => Architecture::Groups,
            false => Architecture::Standalone,
        },
        variant: None,
        clients: plan
            .levels
            .first()
            .map_or(1, |level| (*level).min(WARM_UP_CLIENTS_MAX)),
        repetition: 0,
    };
    cell::run(&context.with_plan(&plan), spec, observer);
}

/// Runs the cells point by point. The subjects alternate and each comes first once, so that a drift
/// affects all of them equally.
fn run_cells(
    context: &CellContext<'_>,
    limits: &HostLimits,
    observer: &mut dyn Observer,
) -> Vec<Cell> {
    let plan = context.plan;
    let mut ladder = Ladder::new(plan.is_grid());
    let mut cells = Vec::new();
    let (points, subjects) = (plan.points(), plan.subjects());
    let count = points.len() * plan.repetitions as usize * subjects.len();
    for point in points {
        let mut plan = plan.clone();
        plan.workload.rate_per_s = point.rate_per_s;
        let context = &context.with_plan(&plan);
        for repetition in 1..=u64::from(plan.repetitions) {
            for subject in rotation::order(&subjects, repetition as usize - 1) {
                let spec = CellSpec {
                    architecture: subject.architecture,
                    variant: subject.variant.map(|variant| variant.name.clone()),
                    clients: point.clients,
                    repetition,
                };
                let mut cell = spec.empty_cell(&plan);
                let started_unix_ns = context.clock.now_unix_ns();
                observer.cell(cells.len() + 1, count, &cell.id());
                let reason = match context.stop.load(Ordering::Relaxed) {
                    true => Some("interrupted".to_owned()),
                    false if context.broker_has_exited() => Some(cell::BROKER_EXITED.to_owned()),
                    false => ladder.skip(&subject, point, &plan.stop, limits),
                };
                match reason {
                    Some(reason) => {
                        observer.note(&format!("skipped: {reason}"));
                        cell.status = CellStatus::Skipped { reason };
                    }
                    None => {
                        cell = cell::run(context, spec, observer);
                        cell.started_s = Some(context.seconds_at(started_unix_ns));
                        ladder.record_result(&subject, point, &mut cell, &plan.stop);
                        observer.note(&verdict::cell(&cell));
                    }
                }
                cells.push(cell);
            }
        }
    }
    cells
}

/// Broker of a run: started for it, or existing.
struct RunBroker {
    lab: Option<Lab>,
    bootstrap: String,
    pids: Vec<u32>,
    limits: HostLimits,
    kafka_version: Option<String>,
}

impl RunBroker {
    fn start(
        options: &BenchOptions,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Self, BenchError> {
        if let Some(bootstrap) = &options.bootstrap {
            return Ok(Self {
                lab: None,
                bootstrap: bootstrap.clone(),
                pids: Vec::new(),
                limits: limits(u64::MAX),
                kafka_version: None,
            });
        }
        let lab = Lab::up(
            &LabOptions::default(),
            &mut |text| observer.note(text),
            stop,
        )?;
        Ok(Self {
            bootstrap: lab.bootstrap(),
            pids: lab.brokers().iter().map(|broker| broker.pid).collect(),
            limits: limits(lab.max_clients_hint()),
            kafka_version: Some(lab.kafka_version().to_owned()),
            lab: Some(lab),
        })
    }

    fn down(&mut self) -> Result<(), BenchError> {
        match self.lab.take() {
            Some(lab) => Ok(lab.down()?),
            None => Ok(()),
        }
    }
}

/// Returns the limits of this host for a broker that accepts `broker_connections` connections.
fn limits(broker_connections: u64) -> HostLimits {
    HostLimits {
        descriptors: descriptors_allowed(),
        broker_connections,
        ports: environment::local_ports(),
        cores: environment::cores(),
    }
}

fn run_dir(out: &Path, started_s: u64, plan: &str) -> Result<PathBuf, BenchError> {
    let name = format!("{}-{plan}", utc::compact(started_s));
    let dir = out.join(name);
    fs::create_dir_all(&dir).map_err(|error| BenchError::file(&dir, error))?;
    Ok(dir)
}

fn describe(plan: &Plan, options: &BenchOptions, cells: Vec<Cell>, broker: &RunBroker) -> Run {
    let weir_version = env!("CARGO_PKG_VERSION").to_owned();
    let mut run = Run {
        schema: SCHEMA.to_owned(),
        plan: plan.name.clone(),
        title: plan.title.clone(),
        question: plan.question.clone(),
        started_utc: String::new(),
        finished_utc: String::new(),
        command_line: options.command_line.clone(),
        weir_version: weir_version.clone(),
        outcome: RunOutcome::Passed,
        verdict: String::new(),
        thresholds: Vec::new(),
        machine: environment::machine(),
        placement: environment::placement(plan),
        clock: environment::clock(),
        versions: [
            ("weir".to_owned(), weir_version),
            ("librdkafka".to_owned(), weir_kafka::librdkafka_version()),
        ]
        .into(),
        settings: environment::settings(plan, &broker.bootstrap),
        cells,
        comparisons: Vec::new(),
        find_max: None,
        libraries: None,
        derived: Vec::new(),
        reference: plan.reference.clone(),
        notes: Vec::new(),
        warnings: Vec::new(),
        files: Vec::new(),
    };
    if let Some(version) = &broker.kafka_version {
        run.versions.insert("kafka".to_owned(), version.clone());
        if let Some(java) = weir_lab::java_version() {
            run.versions.insert("java".to_owned(), java);
        }
    } else {
        run.notes.push(
            "the broker was not started by this run: its resource usage was not measured"
                .to_owned(),
        );
    }
    run
}

fn files(cells: &[Cell]) -> Vec<RunFile> {
    let logs = cells.iter().filter_map(|cell| {
        let path = cell.hlog_file.clone()?;
        let description = format!(
            "latencies of {}, one histogram per second and stage",
            cell.id()
        );
        Some([
            RunFile { path, description },
            RunFile {
                path: format!("{}/", cell.id()),
                description: "events, logs and configuration of each process".to_owned(),
            },
        ])
    });
    logs.flatten().collect()
}

/// Sets thresholds, outcome and verdict of a run; those of a search come from its result.
fn conclude(run: &mut Run, plan: &Plan, interrupted: bool) {
    if run.find_max.is_none() {
        run.thresholds = plan::evaluate(&plan.thresholds, &run.cells);
    }
    let all_have_one = plan.architectures.iter().all(|architecture| {
        let mut cells = run
            .cells
            .iter()
            .filter(|cell| cell.architecture == architecture.name());
        cells.any(Cell::is_valid)
    });
    if let Some(find_max) = &run.find_max {
        run.outcome = match find_max.outcome {
            _ if interrupted => RunOutcome::Interrupted,
            FindMaxOutcome::Inconclusive { .. } => RunOutcome::Invalid,
            FindMaxOutcome::Found { .. } | FindMaxOutcome::AtLeast { .. } => RunOutcome::Passed,
        };
        run.verdict.clone_from(&find_max.summary);
        return;
    }
    run.outcome = match () {
        () if interrupted => RunOutcome::Interrupted,
        () if !all_have_one || !run.cells.iter().any(Cell::is_valid) => RunOutcome::Invalid,
        () if run.thresholds.iter().any(|threshold| !threshold.passed) => {
            RunOutcome::ThresholdFailed
        }
        () => RunOutcome::Passed,
    };
    run.verdict = match plan.sweep {
        Some(_) => sweep::verdict(run),
        None => verdict::run(run),
    };
}

/// Writes `run.json` to a temporary file and renames it, so that readers never see a partial file.
fn write_run(dir: &Path, run: &Run) -> Result<(), BenchError> {
    let (path, partial) = (dir.join(FILE_NAME), dir.join(".run.json.partial"));
    fs::write(&partial, run.to_json())
        .and_then(|()| fs::rename(&partial, &path))
        .map_err(|error| BenchError::file(&path, error))
}

const SECOND_NS: u64 = 1_000_000_000;
const WARM_UP_CLIENTS_MAX: u64 = 100;
const ADMIN_TIMEOUT: Duration = Duration::from_secs(20);
