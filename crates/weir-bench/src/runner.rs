//! Runs plans that compare architectures at several numbers of clients or rates, and searches for
//! the maximum sustained load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_engine::inventory::InventoryRole;
use weir_lab::LabOptions;
use weir_stats::compare::{self, CompareOptions};
use weir_stats::run::{Cell, FindMax, FindMaxOutcome, Run, RunFile, RunOutcome, SettingGroup};

use super::cell::{self, CellContext, CellSpec};
use super::level_history::{HostLimits, LevelHistory};
use super::{BenchError, Finished, Observer, child, derived, probe, settings, verdict};
use crate::FindMaxOptions;
use crate::experiment::run_dir::{self, file};
use crate::experiment::turns::{self, CellLog};
use crate::experiment::{BenchOptions, RunBroker, RunContext, RunDir};
use crate::plan::{self, Architecture, Plan, Valid};

/// Runs `plan`. When `stop` becomes true, the current cell is cut short, all processes shut down
/// cleanly and the results so far are written.
///
/// # Errors
/// [`BenchError`] if there is no broker or the run directory cannot be written; no process keeps
/// running.
pub fn run(
    plan: &Valid<Plan>,
    options: &BenchOptions,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Finished, BenchError> {
    measure(plan, options, observer, stop, |context, observer| {
        (run_cells(context, observer), None)
    })
}

/// Searches for the maximum sustained load of `plan`. An interrupted search has no result.
///
/// # Errors
/// [`BenchError`] if there is no broker or the run directory cannot be written; no process keeps
/// running.
pub fn find_max(
    plan: &Valid<Plan>,
    search: &FindMaxOptions,
    options: &BenchOptions,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Finished, BenchError> {
    measure(plan, options, observer, stop, |context, observer| {
        let (cells, found) = super::find_max::run(context, search, observer);
        (cells, Some(found))
    })
}

fn measure(
    plan: &Plan,
    options: &BenchOptions,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
    work: impl FnOnce(CellContext<'_>, &mut dyn Observer) -> (Vec<Cell>, Option<FindMax>),
) -> Result<Finished, BenchError> {
    let run_dir = RunDir::create(&plan.name, options, stop)?;
    let broker = RunBroker::start(options, &LabOptions::default(), observer, stop)?;
    let machines = options.machines.as_deref();
    let is_remote = machines.is_some_and(|it| it.with(InventoryRole::Probe).next().is_some());
    let sdk = probe::find_sdk(plan, is_remote, observer, stop);
    let context = CellContext {
        run: RunContext {
            run_dir: &run_dir,
            broker: &broker,
        },
        plan,
        sdk: &sdk,
    };
    warm_up_broker(context, observer);
    let (cells, find_max) = work(context, observer);
    let about = [plan.name.as_str(), &plan.title, &plan.question];
    let mut run = run_dir.describe(about, plan.reference.as_ref(), &broker);
    run.placement = settings::placement(plan, machines);
    run.settings = settings::settings(plan, &broker);
    run.settings.push(processes(&run_dir, &mut run.notes));
    describe_broker(&mut run, &broker);
    run.files = files(&cells);
    run.derived = derived::of(plan, &cells);
    run.cells = cells;
    run.find_max = find_max;
    run.comparisons = compare::variants(&run, &CompareOptions::default());
    conclude(&mut run, plan, run_dir.is_stopped());
    if let Some(reason) = run_dir.lost_machine().filter(|_| !run_dir.is_stopped()) {
        run.outcome = RunOutcome::Invalid;
        run.notes.push(reason);
    }
    run_dir.finish(run, broker)
}

pub(super) fn processes(run_dir: &RunDir<'_>, notes: &mut Vec<String>) -> SettingGroup {
    let nice = match run_dir.producers_preferred.load(Ordering::Relaxed) {
        true => child::PREFERRED_NICE,
        false => {
            let text = "the producers ran without priority over the processes they load: raising \
                        it was not permitted (CAP_SYS_NICE)";
            notes.push(text.to_owned());
            0
        }
    };
    SettingGroup::new("processes")
        .with("producers_nice", nice)
        .with("optimized", !cfg!(debug_assertions))
}

/// Adds versions, and a note about a broker that was not started for the run.
pub(super) fn describe_broker(run: &mut Run, broker: &RunBroker) {
    let librdkafka = weir_kafka::librdkafka_version();
    run.versions.insert("librdkafka".to_owned(), librdkafka);
    match broker.lab {
        Some(_) => {
            let java = weir_lab::java_version().map(|java| ("java".to_owned(), java));
            run.versions.extend(java);
        }
        None => {
            let text =
                "the broker was not started by this run: its resource usage was not measured";
            run.notes.insert(0, text.to_owned());
        }
    }
}

/// Puts load on a new broker so that the JVM compiles its hot paths before the first cell. The
/// result is written as repetition 0 and not used.
fn warm_up_broker(context: CellContext<'_>, observer: &mut dyn Observer) {
    let length = context.plan.broker_warm_up;
    let run = context.run;
    if run.broker.lab.is_none() || length.is_zero() || run.run_dir.is_stopped() {
        return;
    }
    let seconds = length.as_secs_f64();
    observer.note(&format!("warming up the broker for {seconds} s"));
    let mut plan = context.plan.clone();
    (plan.warm_up, plan.hold) = (Duration::ZERO, length);
    let first = plan.levels.first().copied().unwrap_or(1);
    let spec = CellSpec {
        // Groups exercise everything that plain consumers do, and the group coordinator.
        architecture: match plan.architectures.contains(&Architecture::Groups) {
            true => Architecture::Groups,
            false => Architecture::Standalone,
        },
        variant: None,
        clients: first.min(WARM_UP_CLIENTS_MAX),
        repetition: 0,
    };
    let mut cell = spec.empty_cell(&plan);
    let context = CellContext {
        plan: &plan,
        ..context
    };
    cell::run(context, spec, &mut cell, observer);
}

/// Runs the cells point by point. The order of the subjects changes with each repetition, so that a
/// drift of the machine affects all of them equally.
fn run_cells(context: CellContext<'_>, observer: &mut dyn Observer) -> Vec<Cell> {
    let plan = context.plan;
    let limits = HostLimits::of(context.run);
    let mut history = LevelHistory::new(plan.is_grid());
    let (points, subjects) = (plan.points(), plan.subjects());
    let count = points.len() * plan.repetitions as usize * subjects.len();
    let mut log = CellLog::new(context.run, observer, verdict::cell, count);
    for point in points {
        let mut plan = plan.clone();
        plan.workload.rate_per_s = point.rate_per_s;
        let context = CellContext {
            plan: &plan,
            ..context
        };
        for repetition in 0..plan.repetitions {
            for subject in turns::order(&subjects, repetition as usize) {
                let spec = CellSpec {
                    architecture: subject.architecture,
                    variant: subject.variant.map(|variant| variant.name.as_str()),
                    clients: point.clients,
                    repetition: u64::from(repetition) + 1,
                };
                let skip = history.skip(&subject, point, &plan.stop, &limits);
                log.turn(
                    spec.empty_cell(&plan),
                    || skip,
                    |cell, observer| {
                        cell::run(context, spec, cell, observer);
                        history.record_result(&subject, point, cell, &plan.stop);
                        Ok(())
                    },
                );
            }
        }
    }
    log.cells
}

pub(super) fn files(cells: &[Cell]) -> Vec<RunFile> {
    let measured = cells.iter().filter_map(|cell| {
        let id = cell.id();
        let text = format!("latencies of {id}, one histogram per second and stage");
        let log = file(cell.hlog_file.clone()?, text);
        let text = "events, logs and configuration of each process";
        Some([log, file(format!("{id}/"), text)])
    });
    measured.flatten().collect()
}

/// Sets thresholds, outcome and verdict of a run; those of a search come from its result.
pub(super) fn conclude(run: &mut Run, plan: &Plan, is_interrupted: bool) {
    if let Some(find_max) = &run.find_max {
        run.outcome = match find_max.outcome {
            _ if is_interrupted => RunOutcome::Interrupted,
            FindMaxOutcome::Inconclusive { .. } => RunOutcome::Invalid,
            FindMaxOutcome::Found { .. } | FindMaxOutcome::AtLeast { .. } => RunOutcome::Complete,
        };
        run.verdict.clone_from(&find_max.summary);
        return;
    }
    run.thresholds = plan::evaluate(&plan.thresholds, &run.cells);
    let has_valid = |architecture: &Architecture| {
        let mut cells = run.cells.iter();
        cells.any(|cell| cell.architecture == architecture.name() && cell.is_valid())
    };
    let all_have_one = plan.architectures.iter().all(has_valid);
    run.outcome = run_dir::outcome(run, is_interrupted, all_have_one);
    run.verdict = verdict::run(run);
}

const WARM_UP_CLIENTS_MAX: u64 = 100;
