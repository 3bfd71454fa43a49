//! Computes limits, comparisons and the verdict of an overhead run.

mod warnings;

use std::fmt::Write as _;

use weir_stats::compare;
use weir_stats::interval::{self, Estimate};
use weir_stats::run::{
    Cell, CellStatus, Run, RunFile, RunOutcome, SettingGroup, ThresholdCounts, ThresholdResult,
    ThresholdStatus,
};

use super::context::{ClientSide, OverheadContext};
use super::cost::{CPU_PER_GB, PROXY, RSS};
use super::plan::{FigureLimit, OverheadPlan};
use super::servers::Server;
use crate::experiment::run_dir::{self, file, list, placement};
use crate::experiment::turns::{CellFailure, CellResult};
use crate::figure_names::RATE;
use crate::settings;

/// Returns an error if a proxy used no CPU time while records were sent through it: the clients
/// bypassed it.
pub(super) fn check_not_bypassed(server: &Server, cell: &Cell) -> CellResult {
    let cost = cell.figures.get(CPU_PER_GB);
    match cost.filter(|_| server.is_proxy && cell.is_valid()) {
        Some(cost) if *cost < CPU_PER_GB_MIN => Err(CellFailure::because(format!(
            "{} used {cost:.3} CPU s/GB: records bypassed it, because it advertises addresses \
             other than its own",
            server.name
        ))),
        _ => Ok(()),
    }
}

pub(super) fn describe(context: OverheadContext<'_>) -> Run {
    let (plan, broker) = (context.plan, context.run.broker);
    let about = [plan.name.as_str(), &plan.title, &plan.question];
    let run_dir = context.run.run_dir;
    let mut run = run_dir.describe(about, plan.reference.as_ref(), broker);
    run.placement = vec![
        placement("broker", "Apache Kafka, one partition, one replica"),
        placement(PROXY, "proxy or relay; none for the subject direct"),
        placement("produce", "one producer"),
    ];
    let load = SettingGroup::new("load")
        .with("repetitions", plan.repetitions)
        .with("records", plan.records)
        .with("record_bytes", plan.record_bytes)
        .with("rates_per_s", list(&plan.rates_per_s))
        .with("rate_hold_s", plan.rate_hold.as_secs_f64())
        .with("warm_up_s", plan.warm_up.as_secs_f64());
    let load = settings::cluster(load, broker);
    let producer = plan.producer.iter();
    let producer = producer.fold(SettingGroup::new("producer"), |group, (name, value)| {
        group.with(name, value)
    });
    run.settings = vec![load, producer];
    run
}

pub(super) fn conclude(run: &mut Run, plan: &OverheadPlan, interrupted: bool) {
    run.thresholds = plan
        .limits
        .iter()
        .filter_map(|limit| check(limit, &run.cells))
        .collect();
    run.comparisons = compare::variants(run, &compare::CompareOptions::default());
    run.files = files(&run.cells);
    run.warnings.extend(warnings::of(run));
    let mut cells = run.cells.iter();
    let has_figures = cells.any(|cell| cell.figures.contains_key("records_per_s"));
    run.outcome = run_dir::outcome(run, interrupted, has_figures);
    run.verdict = verdict(run);
}

fn files(cells: &[Cell]) -> Vec<RunFile> {
    let mut files = Vec::new();
    for cell in cells.iter().filter(|cell| cell.repetition > 0) {
        let id = cell.id();
        if cell.architecture.starts_with("kafka-") && cell.is_valid() {
            files.push(file(format!("{id}.txt"), "output of the tool"));
        }
        let text = format!("latencies of {id}, one histogram per second");
        files.extend(cell.hlog_file.clone().map(|path| file(path, text)));
    }
    files
}

/// Returns the values of the limit's figure for one subject, each with its repetition.
fn values(cells: &[Cell], limit: &FigureLimit, variant: &str) -> Vec<(u64, f64)> {
    let rate = limit.rate_per_s.map(|rate| rate as f64);
    let same = cells.iter().filter(|cell| {
        cell.is_valid()
            && cell.repetition > 0
            && cell.architecture == limit.side
            && cell.variant.as_deref() == Some(variant)
            && cell.parameters.get(RATE).copied() == rate
    });
    same.filter_map(|cell| Some((cell.repetition, *cell.figures.get(&limit.figure)?)))
        .collect()
}

/// Returns the difference of the mean values; its interval is that of the differences within each
/// repetition.
fn difference(own: &[(u64, f64)], base: &[(u64, f64)]) -> Option<Estimate> {
    let mean = |side: &[(u64, f64)]| {
        let values: Vec<f64> = side.iter().map(|(_, value)| *value).collect();
        interval::repetition_mean(&values)
    };
    let differences: Vec<f64> = own
        .iter()
        .filter_map(|(repetition, value)| {
            let (_, base) = base.iter().find(|(other, _)| other == repetition)?;
            Some(value - base)
        })
        .collect();
    Some(Estimate {
        value: mean(own)? - mean(base)?,
        ..interval::mean(&differences)?
    })
}

/// Evaluates a limit; `None` if the limit itself names no other subject or no bound.
fn check(limit: &FigureLimit, cells: &[Cell]) -> Option<ThresholdResult> {
    let own = values(cells, limit, &limit.of);
    let other = limit
        .relative_to
        .as_ref()
        .or(limit.difference_from.as_ref())?;
    let base = values(cells, limit, other);
    let (estimate, sign, unit) = match limit.relative_to {
        Some(_) => (interval::repetition_ratio(&own, &base), "/", "x"),
        None => (difference(&own, &base), "-", "s/GB"),
    };
    let bounds = estimate.as_ref().and_then(|it| it.bounds);
    let (actual, bound, relation) = match (limit.at_most, limit.lower_bound_at_least) {
        (Some(max), _) => (estimate.map(|it| it.value), max, "<="),
        (None, Some(min)) => (bounds.map(|(low, _)| low), min, "(lower bound) >="),
        (None, None) => return None,
    };
    let status = match (actual, limit.at_most, bounds) {
        (None, ..) => ThresholdStatus::NotChecked,
        (Some(actual), Some(max), _) => ThresholdStatus::of(actual <= max),
        (Some(low), None, _) if low >= bound => ThresholdStatus::Passed,
        // Only an interval that is below the bound as a whole shows that the limit is not met.
        (Some(_), None, Some((_, high))) if high >= bound => ThresholdStatus::Undecided,
        (Some(_), None, _) => ThresholdStatus::Failed,
    };
    let reason = match (status, bounds) {
        (ThresholdStatus::NotChecked, _) => Some(missing(&limit.of, &own, other, &base)),
        (ThresholdStatus::Undecided, Some((low, high))) => {
            let count = own.len();
            Some(format!("{low:.3} to {high:.3} after {count} repetitions"))
        }
        _ => None,
    };
    let (of, figure) = (&limit.of, &limit.figure);
    Some(ThresholdResult {
        expression: format!("{of}.{figure} {sign} {other}.{figure} {relation} {bound}"),
        scope: match limit.rate_per_s {
            Some(rate) => format!("{}, {rate} records/s", limit.side),
            None => format!("{}, unthrottled", limit.side),
        },
        actual,
        limit: bound,
        unit: unit.to_owned(),
        status,
        reason,
    })
}

/// Returns the limits that the cells so far leave undecided.
pub(super) fn undecided<'a>(plan: &'a OverheadPlan, cells: &[Cell]) -> Vec<&'a FigureLimit> {
    let is_undecided = |limit: &&FigureLimit| {
        check(limit, cells).is_some_and(|it| it.status == ThresholdStatus::Undecided)
    };
    plan.limits.iter().filter(is_undecided).collect()
}

impl FigureLimit {
    /// Returns `true` if the limit needs cells of this load. Consumers read what a producer wrote
    /// at the maximum rate.
    pub(super) fn needs(&self, (side, rate): (ClientSide, Option<u64>)) -> bool {
        let is_own = side.name() == self.side && rate == self.rate_per_s;
        let is_source = self.side == ClientSide::Consume.name()
            && side == ClientSide::Produce
            && rate.is_none();
        is_own || is_source
    }

    /// Returns `true` if `subject` is one of the two that the limit compares.
    pub(super) fn compares(&self, subject: &str) -> bool {
        let others = self.relative_to.iter().chain(&self.difference_from);
        others.chain([&self.of]).any(|name| name == subject)
    }
}

/// Returns why a limit has no value.
fn missing(of: &str, own: &[(u64, f64)], other: &str, base: &[(u64, f64)]) -> String {
    match (own.is_empty(), base.is_empty()) {
        (true, true) => format!("neither {of} nor {other} was measured"),
        (true, false) => format!("{of} was not measured"),
        (false, true) => format!("{other} was not measured"),
        (false, false) => "too few repetitions for an interval".to_owned(),
    }
}

/// Returns one line about a completed cell.
pub(super) fn line(cell: &Cell) -> String {
    match &cell.status {
        CellStatus::Skipped { reason } => return format!("skipped: {reason}"),
        CellStatus::Invalid { reasons } => return format!("invalid: {}", reasons.join(", ")),
        CellStatus::Valid => {}
    }
    let figure = |name: &str| cell.figures.get(name).copied();
    let mut text = format!("{:.0} records/s", figure("records_per_s").unwrap_or(0.0));
    for (name, unit) in [
        ("latency_p50_ms", "ms p50"),
        ("latency_p99_ms", "ms p99"),
        (CPU_PER_GB, "CPU s/GB"),
        (RSS, "MiB"),
    ] {
        if let Some(value) = figure(name) {
            // Writing to a string does not fail.
            let _ = write!(text, ", {value:.2} {unit}");
        }
    }
    if warnings::is_rate_missed(cell) {
        text.push_str(" (rate not reached)");
    }
    text
}

fn verdict(run: &Run) -> String {
    let mut text = match run.outcome {
        RunOutcome::Interrupted => "Interrupted; results until then. ".to_owned(),
        RunOutcome::Invalid => return "No cell was measured.".to_owned(),
        _ => String::new(),
    };
    let mut names: Vec<&str> = Vec::new();
    for name in run.cells.iter().filter_map(|cell| cell.variant.as_deref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let base = run.base_variant().unwrap_or_default();
    for name in names.into_iter().filter(|name| *name != base) {
        let limit = unthrottled("records_per_s");
        let of = |variant: &str| values(&run.cells, &limit, variant);
        if let Some(ratio) = interval::repetition_ratio(&of(name), &of(base)) {
            let bounds = ratio
                .bounds
                .map(|(low, high)| format!(" ({low:.3} to {high:.3})"));
            let (value, bounds) = (ratio.value, bounds.unwrap_or_default());
            let cost = cost(run, name);
            let _ = write!(text, "{name}: {value:.3}{bounds} of {base}{cost}. ");
        }
    }
    if let Some(counts) = ThresholdCounts::of(&run.thresholds).text() {
        let _ = write!(text, "{counts}.");
    }
    text.trim_end().to_owned()
}

/// Selects a figure of the producer at the maximum rate.
fn unthrottled(figure: &str) -> FigureLimit {
    FigureLimit {
        side: ClientSide::Produce.name().to_owned(),
        figure: figure.to_owned(),
        ..FigureLimit::default()
    }
}

/// Returns the mean cost over the same repetitions, as a clause.
fn cost(run: &Run, subject: &str) -> String {
    let costs = values(&run.cells, &unthrottled(CPU_PER_GB), subject);
    let costs: Vec<f64> = costs.into_iter().map(|(_, cost)| cost).collect();
    interval::repetition_mean(&costs)
        .map_or_else(String::new, |cost| format!(", {cost:.2} CPU s/GB"))
}

/// Minimum cost of a proxy that forwards records; even a relay needs far more.
const CPU_PER_GB_MIN: f64 = 0.05;

#[cfg(test)]
mod tests;
