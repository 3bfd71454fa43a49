//! Broker sweeps: a producer over record sizes and rates, then a consumer over fetch sizes;
//! optionally the same cells with Apache Kafka's own tools.

mod consumer;
mod context;
mod figures;
mod files;
mod knees;
mod plan;
mod producer;
mod tools;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_lab::LabOptions;
use weir_stats::perf::MIB;
use weir_stats::run::{Cell, Run, RunFile, SettingGroup};

use super::{BenchError, Finished, Observer, kafka_tools, runner, settings};
use crate::experiment::run_dir::{self, file, list, placement};
use crate::experiment::turns::{self, CellLog};
use crate::experiment::{BenchOptions, RunBroker, RunContext, RunDir};
use crate::plan::Valid;

use context::{Measurer, SweepCell, SweepContext};
pub(super) use figures::line_figures;
pub use files::consumer_row;
pub(super) use files::import;
pub(super) use knees::{derived, verdict};
use plan::SweepGrid;
pub use plan::{SweepGridOverrides, SweepOverrides, SweepPlan};

/// Runs `plan`. When `stop` becomes true, the results so far are written.
///
/// # Errors
/// [`BenchError`] if there is no broker or the run directory cannot be written; no process keeps
/// running.
pub fn run(
    plan: &Valid<SweepPlan>,
    options: &BenchOptions,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<Finished, BenchError> {
    let run_dir = RunDir::create(&plan.name, options, stop)?;
    let broker = RunBroker::start(options, &LabOptions::default(), observer, stop)?;
    let context = SweepContext {
        run: RunContext {
            run_dir: &run_dir,
            broker: &broker,
        },
        plan,
    };
    warm_up_broker(context, observer);
    let cells = run_cells(context, observer);
    let about = [plan.name.as_str(), &plan.title, &plan.question];
    let mut run = run_dir.describe(about, None, &broker);
    run.placement = vec![
        placement("broker", "Apache Kafka"),
        placement("produce", "open-loop producers"),
        placement("consume", "one consumer at a time"),
    ];
    run.settings = settings(plan, &broker);
    run.settings
        .push(runner::processes(&run_dir, &mut run.notes));
    runner::describe_broker(&mut run, &broker);
    run.files = files(&run_dir, &cells);
    run.derived = derived(&cells);
    run.cells = cells;
    conclude(&mut run, run_dir.is_stopped());
    run_dir.finish(run, broker)
}

/// Runs all cells; Weir and Kafka's tools, or the variants of an A/A test, take turns.
fn run_cells(context: SweepContext<'_>, observer: &mut dyn Observer) -> Vec<Cell> {
    let (plan, sweep) = (context.plan, &context.plan.sweep);
    let wants_tools = sweep.kafka_tools;
    let tools = wants_tools.then(|| kafka_tools::find(context.run, observer));
    let measurers: &[Measurer] = match tools {
        Some(_) => &[Measurer::Weir, Measurer::Kafka],
        None if plan.aa_test => &[Measurer::Weir, Measurer::WeirAgain],
        None => &[Measurer::Weir],
    };
    let produce = sweep.producer_points().into_iter();
    let produce = produce.map(|(size, target)| SweepCell::Produce { size, target });
    let fetch_sizes = sweep.fetch_sizes_bytes.iter();
    let consume = fetch_sizes.map(|&fetch_size| SweepCell::Consume { fetch_size });
    let jobs: Vec<SweepCell> = produce.chain(consume).collect();
    let count = jobs.len() * plan.repetitions as usize * measurers.len();
    let mut log = CellLog::new(context.run, observer, figures::line, count);
    let mut filled = None;
    for job in jobs {
        for repetition in 0..plan.repetitions {
            for by in turns::order(measurers, repetition as usize) {
                let number = u64::from(repetition) + 1;
                let tools = tools.as_ref().filter(|_| by == Measurer::Kafka);
                log.turn(
                    figures::empty_cell(plan, (job, by), number),
                    || skip_reason(sweep, job),
                    |cell, observer| match (job, tools) {
                        (SweepCell::Produce { size, target }, None) => {
                            producer::measure(context, (size, target), cell, observer)
                        }
                        (SweepCell::Produce { size, target }, Some(tools)) => {
                            tools::produce(context, tools, (size, target), cell)
                        }
                        (SweepCell::Consume { fetch_size }, tools) => {
                            let topic = consumer::fill(context, &mut filled, observer)?;
                            let read = (topic.as_str(), fetch_size);
                            match tools {
                                None => consumer::measure(context, read, cell, observer),
                                Some(tools) => tools::consume(context, tools, read, cell),
                            }
                        }
                    },
                );
            }
        }
    }
    let cells = log.cells;
    if let Some(topic) = filled {
        context.run.broker.delete_topic(&topic);
    }
    cells
}

/// Returns the reason if a cell exceeds the plan's data rate.
fn skip_reason(sweep: &SweepGrid, job: SweepCell) -> Option<String> {
    let SweepCell::Produce { size, target } = job else {
        return None;
    };
    let limit = sweep.mib_per_s_max?;
    let requested = size.saturating_mul(target) as f64 / MIB;
    let reason = format!(
        "{target} records of {size} bytes per second are {requested:.1} MB/s, above \
         sweep.mib_per_s_max = {limit}"
    );
    (requested > limit as f64).then_some(reason)
}

/// Puts load on the broker so that the JVM compiles its hot paths. The results are discarded.
fn warm_up_broker(context: SweepContext<'_>, observer: &mut dyn Observer) {
    let (length, run) = (context.plan.broker_warm_up, context.run);
    if run.broker.lab.is_none() || length.is_zero() || run.run_dir.is_stopped() {
        return;
    }
    let seconds = length.as_secs_f64();
    observer.note(&format!("warming up the broker for {seconds} s"));
    let mut plan = context.plan.clone();
    (plan.warm_up, plan.hold) = (Duration::ZERO, length);
    let middle = |values: &[u64]| values.get(values.len() / 2).copied().unwrap_or(1000);
    let size = middle(&plan.sweep.record_sizes_bytes);
    let target = middle(&plan.sweep.target_rates_per_s).min(WARM_UP_PER_S_MAX);
    let job = SweepCell::Produce { size, target };
    let mut cell = figures::empty_cell(&plan, (job, Measurer::Weir), 0);
    let context = SweepContext { run, plan: &plan };
    // An error also occurs in the cells that follow.
    let _ = producer::measure(context, (size, target), &mut cell, observer);
}

fn settings(plan: &SweepPlan, broker: &RunBroker) -> Vec<SettingGroup> {
    let sweep = &plan.sweep;
    let load = SettingGroup::new("load")
        .with("repetitions", plan.repetitions)
        .with("broker_warm_up_s", plan.broker_warm_up.as_secs_f64())
        .with("warm_up_s", plan.warm_up.as_secs_f64())
        .with("hold_s", plan.hold.as_secs_f64())
        .with("drain_s", plan.drain.as_secs_f64());
    let grid = SettingGroup::new("sweep")
        .with("record_sizes_bytes", list(&sweep.record_sizes_bytes))
        .with("target_rates_per_s", list(&sweep.target_rates_per_s))
        .with("fetch_sizes_bytes", list(&sweep.fetch_sizes_bytes))
        .with("consumer_records", sweep.consumer_records)
        .with("consumer_record_bytes", sweep.consumer_record_bytes);
    vec![
        load,
        settings::workload(&plan.workload, &list(&sweep.target_rates_per_s)),
        grid,
        settings::topic(&plan.workload, plan.topic.as_deref(), broker),
        settings::validity(&plan.validity),
    ]
}

fn files(run_dir: &RunDir<'_>, cells: &[Cell]) -> Vec<RunFile> {
    let mut all = runner::files(cells);
    for (subdir, owner) in [("", "Weir's"), ("kafka-tools/", "Apache Kafka's own")] {
        for name in files::names(&run_dir.path.join(subdir)) {
            let side = if name.contains("producer") {
                "producer"
            } else {
                "consumer"
            };
            let text = format!("{owner} results in the format of kafka-{side}-perf-test");
            all.push(file(format!("{subdir}{name}"), text));
        }
    }
    all
}

fn conclude(run: &mut Run, is_interrupted: bool) {
    let has_valid = run.cells.iter().any(Cell::is_valid);
    run.outcome = run_dir::outcome(run, is_interrupted, has_valid);
    run.verdict = verdict(run);
}

const WARM_UP_PER_S_MAX: u64 = 5000;
