//! Broker sweeps: a producer over record sizes and rates, then a consumer over fetch sizes;
//! optionally the same cells with Apache Kafka's own tools.

mod consumer;
mod figures;
mod files;
mod producer;
mod sweep_cell;
mod tools;
mod topic;
mod worker;

use std::sync::atomic::Ordering;

use weir_stats::knee::{KneeRule, LoadPoint, knee};
use weir_stats::perf::MIB;
use weir_stats::run::{Cell, CellStatus, Derived, DerivedFrom, Run};

use super::cell::{BROKER_EXITED, CellContext};
use super::observer::Observer;
use super::verdict;
use crate::plan::{Plan, SweepPlan};

use figures::PRODUCER;
pub use files::consumer_row;
pub(super) use files::{files, import};
use sweep_cell::{Measurer, SweepCell};
use topic::delete_topic;

/// Runs all cells of the sweep; Weir and Kafka's tools alternate.
pub(super) fn run(
    context: &CellContext<'_>,
    sweep: &SweepPlan,
    observer: &mut dyn Observer,
) -> Vec<Cell> {
    let tools = sweep.kafka_tools.then(|| tools::find(context, observer));
    let measurers: &[Measurer] = match tools {
        Some(_) => &[Measurer::Weir, Measurer::Kafka],
        None => &[Measurer::Weir],
    };
    let produce = sweep.producer_points().into_iter();
    let produce = produce.map(|(size, target)| SweepCell::Produce { size, target });
    let fetch_sizes = sweep.fetch_sizes_bytes.iter();
    let consume = fetch_sizes.map(|&fetch_size| SweepCell::Consume { fetch_size });
    let jobs: Vec<SweepCell> = produce.chain(consume).collect();
    let repetitions = u64::from(context.plan.repetitions);
    let count = jobs.len() * repetitions as usize * measurers.len();
    warm_up_broker(context, sweep, observer);
    let mut topic = None;
    let mut cells = Vec::new();
    for job in jobs {
        for repetition in 1..=repetitions {
            for by in measurers {
                let mut cell = figures::empty_cell(context.plan, (job, *by), repetition);
                observer.cell(cells.len() + 1, count, &cell.id());
                let reason = match context.stop.load(Ordering::Relaxed) {
                    true => Some("interrupted".to_owned()),
                    false if context.broker_has_exited() => Some(BROKER_EXITED.to_owned()),
                    false => skip_reason(sweep, job),
                };
                if let Some(reason) = reason {
                    cell.status = CellStatus::Skipped { reason };
                } else {
                    let measured = match (job, &tools) {
                        (SweepCell::Produce { size, target }, Some(tools))
                            if *by == Measurer::Kafka =>
                        {
                            tools::produce(context, tools, (size, target), &mut cell)
                        }
                        (SweepCell::Consume { fetch_size }, tools) => {
                            let tools = tools.as_ref().filter(|_| *by == Measurer::Kafka);
                            let filled = consumer::fill(context, sweep, &mut topic, observer);
                            filled.and_then(|topic| match tools {
                                Some(tools) => {
                                    tools::consume(context, tools, (&topic, fetch_size), &mut cell)
                                }
                                None => consumer::measure(
                                    context,
                                    (&topic, fetch_size),
                                    &mut cell,
                                    observer,
                                ),
                            })
                        }
                        (SweepCell::Produce { size, target }, _) => {
                            producer::measure(context, (size, target), &mut cell, observer)
                        }
                    };
                    if let Err(reason) = measured {
                        let reasons = vec![reason];
                        cell.status = CellStatus::Invalid { reasons };
                    }
                }
                observer.note(&verdict::sweep_cell(&cell));
                cells.push(cell);
            }
        }
    }
    if let Some(topic) = topic {
        delete_topic(context.admin, &topic);
    }
    cells
}

/// Returns the reason if a cell exceeds the plan's data rate.
fn skip_reason(sweep: &SweepPlan, job: SweepCell) -> Option<String> {
    let SweepCell::Produce { size, target } = job else {
        return None;
    };
    let limit = sweep.mib_per_s_max?;
    let requested = size.saturating_mul(target) as f64 / MIB;
    (requested > limit as f64).then(|| {
        format!(
            "{target} records of {size} bytes per second are {requested:.1} MB/s, above \
             sweep.mib_per_s_max = {limit}"
        )
    })
}

/// Puts load on the broker so that the JVM compiles its hot paths. The results are discarded.
fn warm_up_broker(context: &CellContext<'_>, sweep: &SweepPlan, observer: &mut dyn Observer) {
    let length = context.plan.broker_warm_up;
    if context.broker_pids.is_empty() || length.is_zero() {
        return;
    }
    observer.note(&format!(
        "warming up the broker for {} s",
        length.as_secs_f64()
    ));
    let mut plan = context.plan.clone();
    (plan.warm_up, plan.hold) = (std::time::Duration::ZERO, length);
    let middle = |values: &[u64]| values.get(values.len() / 2).copied();
    let size = middle(&sweep.record_sizes_bytes).unwrap_or(1000);
    let target = middle(&sweep.target_rates_per_s)
        .unwrap_or(1000)
        .min(WARM_UP_PER_S_MAX);
    let job = SweepCell::Produce { size, target };
    let mut cell = figures::empty_cell(&plan, (job, Measurer::Weir), 0);
    // An error also occurs in the cells that follow.
    let _ = producer::measure(
        &context.with_plan(&plan),
        (size, target),
        &mut cell,
        observer,
    );
}

/// Returns the knee of each record size.
pub(super) fn derived(cells: &[Cell]) -> Vec<Derived> {
    let producers = || {
        cells
            .iter()
            .filter(|cell| cell.architecture == PRODUCER && cell.is_valid())
    };
    let mut sizes: Vec<f64> = producers()
        .filter_map(|cell| cell.parameters.get(figures::RECORD_SIZE).copied())
        .collect();
    sizes.sort_unstable_by(f64::total_cmp);
    sizes.dedup();
    sizes
        .into_iter()
        .map(|size| {
            let own =
                producers().filter(|cell| cell.parameters.get(figures::RECORD_SIZE) == Some(&size));
            let points: Vec<LoadPoint> = own.filter_map(figures::load_point).collect();
            knee_of(size, &points)
        })
        .collect()
}

fn knee_of(size: f64, points: &[LoadPoint]) -> Derived {
    let rule = KneeRule::default();
    let found = knee(points, rule);
    let describe = |point: LoadPoint| {
        format!(
            "{:.0} of {:.0} records/s with a mean of {:.1} ms",
            point.achieved_per_s, point.offered_per_s, point.latency_ms
        )
    };
    let detail = match found.map(|knee| (knee.at, knee.beyond)) {
        None => "the lowest rate already exceeds it".to_owned(),
        Some((at, None)) => format!("no rate exceeds it; the highest gave {}", describe(at)),
        Some((at, Some(beyond))) => {
            format!("it gave {}, the next {}", describe(at), describe(beyond))
        }
    };
    let is_above = found.is_some_and(|knee| knee.beyond.is_none());
    Derived {
        name: if is_above { KNEE_ABOVE } else { KNEE }.to_owned(),
        of: format!("{PRODUCER} {size} bytes"),
        value: found.map(|knee| knee.at.offered_per_s),
        unit: "records/s".to_owned(),
        basis: DerivedFrom::Measured,
        derivation: format!(
            "highest rate at which {:.0} % of the records were acknowledged with at most {} times \
             the mean latency of the lowest rate: {detail}",
            rule.achieved_share * 100.0,
            rule.latency_factor
        ),
    }
}

/// Returns the verdict: the knees and the highest consumer throughput.
pub(super) fn verdict(run: &Run) -> String {
    let describe = |knee: &Derived| {
        let of = &knee.of;
        match (knee.name.as_str(), knee.value) {
            (KNEE, Some(value)) => Some(format!("{of}: knee at {value} records/s")),
            (KNEE, None) => Some(format!("{of}: no rate below the knee")),
            (KNEE_ABOVE, Some(value)) => Some(format!("{of}: no knee up to {value} records/s")),
            _ => None,
        }
    };
    let mut clauses: Vec<String> = run.derived.iter().filter_map(describe).collect();
    let fastest = run
        .cells
        .iter()
        .filter(|cell| cell.is_valid())
        .filter_map(|cell| {
            let rate = *cell.figures.get(figures::FETCH_RATE)?;
            Some((rate, cell.parameters.get(figures::FETCH_SIZE)?))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((rate, size)) = fastest {
        clauses.push(format!(
            "consumer: {rate:.1} MB/s at a fetch size of {size} bytes"
        ));
    }
    match clauses.is_empty() {
        true => "No cell was measured.".to_owned(),
        false => format!("{}.", clauses.join("; ")),
    }
}

/// Returns the sweep if the plan is one.
pub(super) fn of(plan: &Plan) -> Option<&SweepPlan> {
    plan.sweep.as_ref()
}

const WARM_UP_PER_S_MAX: u64 = 5000;
/// Name of a derived knee.
const KNEE: &str = "knee";
/// Name of the highest rate of a sweep that did not reach the knee.
const KNEE_ABOVE: &str = "knee_above";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knees_are_derived_per_record_size() {
        let plan = Plan::built_in("broker-sweep").unwrap().unwrap();
        let cell = |size, target, achieved: f64, latency_ms: f64| {
            let job = SweepCell::Produce { size, target };
            let mut cell = figures::empty_cell(&plan, (job, Measurer::Weir), 1);
            cell.figures
                .insert(figures::RECORDS_PER_S.to_owned(), achieved);
            cell.figures
                .insert(figures::RESPONSE_MEAN.to_owned(), latency_ms);
            cell
        };
        let cells = [
            cell(100, 1000, 1000.0, 2.0),
            cell(100, 5000, 4999.0, 3.0),
            cell(1000, 1000, 1000.0, 2.0),
            cell(1000, 5000, 2600.0, 800.0),
        ];
        let found = derived(&cells);
        let values: Vec<_> = found
            .iter()
            .map(|it| (it.name.as_str(), it.of.as_str(), it.value))
            .collect();
        assert_eq!(
            values,
            [
                (KNEE_ABOVE, "producer 100 bytes", Some(5000.0)),
                (KNEE, "producer 1000 bytes", Some(1000.0))
            ]
        );
        assert!(
            found[0].derivation.contains("no rate exceeds it"),
            "{}",
            found[0].derivation
        );
        assert!(
            found[1]
                .derivation
                .ends_with("the next 2600 of 5000 records/s with a mean of 800.0 ms")
        );
    }

    #[test]
    fn cells_above_rate_limit_are_skipped() {
        let plan = Plan::built_in("broker-sweep").unwrap().unwrap();
        let mut sweep = plan.sweep.unwrap();
        sweep.mib_per_s_max = Some(10);
        let at = |size, target| skip_reason(&sweep, SweepCell::Produce { size, target });
        assert_eq!(at(1000, 10_000), None);
        let reason = at(1000, 20_000).unwrap();
        assert!(
            reason.contains("19.1 MB/s, above sweep.mib_per_s_max = 10"),
            "{reason}"
        );
        assert_eq!(
            skip_reason(
                &sweep,
                SweepCell::Consume {
                    fetch_size: 1 << 30
                }
            ),
            None
        );
    }
}
