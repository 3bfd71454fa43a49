//! From measured cells to limits and an answer.

mod doubts;

use std::fmt::Write as _;

use weir_stats::compare;
use weir_stats::interval::{self, Estimate};
use weir_stats::run::{
    Cell, CellStatus, Placement, Run, RunFile, RunOutcome, SCHEMA, SettingGroup, ThresholdResult,
};

use super::measure::{CPU_PER_GB, PROXY, RSS};
use super::plan::{FigureLimit, OverheadPlan};
use super::servers::Server;
use super::{ClientSide, OverheadContext, RATE, RunFailure};
use crate::{BenchOptions, environment};

/// A proxy whose processes did nothing while records went through it: the clients found another way.
pub(super) fn check_not_passed_by(server: &Server, cell: &Cell) -> Result<(), RunFailure> {
    let cost = cell.figures.get(CPU_PER_GB);
    match cost.filter(|_| server.is_proxy() && cell.is_valid()) {
        Some(cost) if *cost < CPU_PER_GB_MIN => Err(RunFailure::Failed(format!(
            "{} used {cost:.3} CPU s/GB: records went past it; it tells clients of addresses that are not \
             its own",
            server.name
        ))),
        _ => Ok(()),
    }
}

/// The run but for its cells and what follows from them.
pub(super) fn describe(
    context: &OverheadContext<'_>,
    options: &BenchOptions,
    bootstrap: &str,
    kafka_version: Option<String>,
) -> Run {
    let plan = context.plan;
    let weir_version = env!("CARGO_PKG_VERSION").to_owned();
    let mut versions = std::collections::BTreeMap::new();
    versions.insert("weir".to_owned(), weir_version.clone());
    versions.extend(kafka_version.map(|version| ("kafka".to_owned(), version)));
    let part = |role: &str, description: &str| Placement {
        role: role.to_owned(),
        host: "this machine".to_owned(),
        processes: 1,
        description: description.to_owned(),
    };
    let rates: Vec<String> = plan.rates_per_s.iter().map(u64::to_string).collect();
    let load = SettingGroup::new("load")
        .with("rounds", plan.rounds)
        .with("messages", plan.messages)
        .with("record_bytes", plan.record_bytes)
        .with("rates_per_s", rates.join(" "))
        .with("rate_hold_s", plan.rate_hold.as_secs_f64())
        .with("warm_up_s", plan.warm_up.as_secs_f64())
        .with("bootstrap.servers", bootstrap);
    let producer = plan.producer.iter();
    let producer = producer.fold(SettingGroup::new("producer"), |group, (name, value)| {
        group.with(name, value)
    });
    Run {
        schema: SCHEMA.to_owned(),
        plan: plan.name.clone(),
        title: plan.title.clone(),
        question: plan.question.clone(),
        started_utc: String::new(),
        finished_utc: String::new(),
        command_line: options.command_line.clone(),
        weir_version,
        outcome: RunOutcome::Passed,
        verdict: String::new(),
        thresholds: Vec::new(),
        machine: environment::machine(),
        placement: vec![
            part("broker", "Apache Kafka, one partition, one replica"),
            part(PROXY, "what stands between; none in the way called direct"),
            part("produce", "one producer"),
        ],
        clock: environment::clock(),
        versions,
        settings: vec![load, producer],
        cells: Vec::new(),
        reference: plan.reference.clone(),
        notes: Vec::new(),
        warnings: Vec::new(),
        files: Vec::new(),
        derived: Vec::new(),
        comparisons: Vec::new(),
        find_max: None,
        libraries: None,
    }
}

/// Limits, comparisons, outcome and the sentence in front.
pub(super) fn conclude(run: &mut Run, plan: &OverheadPlan, interrupted: bool) {
    run.thresholds = plan
        .limits
        .iter()
        .filter_map(|limit| check(limit, &run.cells))
        .collect();
    run.comparisons = compare::variants(run, &compare::Options::default());
    run.files = files(&run.cells);
    run.warnings.extend(doubts::of(run));
    let has_figures = run
        .cells
        .iter()
        .any(|cell| cell.figures.contains_key("records_per_s"));
    run.outcome = match () {
        () if interrupted => RunOutcome::Interrupted,
        () if !has_figures => RunOutcome::Invalid,
        () if run.thresholds.iter().any(|it| !it.passed) => RunOutcome::ThresholdFailed,
        () => RunOutcome::Passed,
    };
    run.verdict = verdict(run);
}

fn files(cells: &[Cell]) -> Vec<RunFile> {
    let mut files = Vec::new();
    for cell in cells.iter().filter(|cell| cell.repetition > 0) {
        let is_tool = cell.architecture.starts_with("kafka-");
        if is_tool && cell.is_valid() {
            files.push(RunFile {
                path: format!("{}.txt", cell.id()),
                description: "what the tool printed".to_owned(),
            });
        }
        files.extend(cell.hlog_file.clone().map(|path| RunFile {
            path,
            description: format!("latencies of {}, one histogram a second", cell.id()),
        }));
    }
    files
}

/// Values of the limit's metric for one subject, each with the number of its repetition.
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

/// Difference of the values that tables show; the interval is that of the differences of each repetition.
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

/// `None` where the limit's subjects were not part of the run.
fn check(limit: &FigureLimit, cells: &[Cell]) -> Option<ThresholdResult> {
    let own = values(cells, limit, &limit.of);
    let (estimate, sign, other) = match (&limit.over, &limit.minus) {
        (Some(other), _) => (
            interval::repetition_ratio(&own, &values(cells, limit, other)),
            "/",
            other,
        ),
        (None, Some(other)) => (difference(&own, &values(cells, limit, other)), "-", other),
        (None, None) => return None,
    };
    let ran = |name: &str| {
        cells
            .iter()
            .any(|cell| cell.variant.as_deref() == Some(name))
    };
    if !ran(&limit.of) || !ran(other) {
        return None;
    }
    let low = |estimate: &Estimate| estimate.bounds.map(|(low, _)| low);
    let (actual, bound, relation) = match (limit.at_most, limit.low_at_least) {
        (Some(most), _) => (estimate.map(|it| it.value), most, "<="),
        (None, Some(least)) => (estimate.as_ref().and_then(low), least, "(low) >="),
        (None, None) => return None,
    };
    let holds = |actual: f64| match relation {
        "<=" => actual <= bound,
        _ => actual >= bound,
    };
    let figure = &limit.figure;
    let of = &limit.of;
    Some(ThresholdResult {
        expression: format!("{of}.{figure} {sign} {other}.{figure} {relation} {bound}"),
        scope: match limit.rate_per_s {
            Some(rate) => format!("{}, {rate} records/s", limit.side),
            None => format!("{}, unthrottled", limit.side),
        },
        actual,
        limit: bound,
        unit: if sign == "/" { "x" } else { "s/GB" }.to_owned(),
        passed: actual.is_some_and(holds),
    })
}

/// One line about a cell that has just run.
pub(super) fn line(cell: &Cell) -> String {
    match &cell.status {
        CellStatus::Skipped { reason } => return format!("skipped: {reason}"),
        CellStatus::Invalid { reasons } => return format!("not valid: {}", reasons.join(", ")),
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
    if doubts::is_rate_missed(cell) {
        text.push_str(" (rate not held)");
    }
    text
}

fn verdict(run: &Run) -> String {
    let held = run.thresholds.iter().filter(|it| it.passed).count();
    let all = run.thresholds.len();
    let mut text = match run.outcome {
        RunOutcome::Interrupted => "Interrupted; what was measured until then stands. ".to_owned(),
        RunOutcome::Invalid => return "Nothing was measured.".to_owned(),
        _ => String::new(),
    };
    let mut named: Vec<&str> = Vec::new();
    for name in run.cells.iter().filter_map(|cell| cell.variant.as_deref()) {
        if !named.contains(&name) {
            named.push(name);
        }
    }
    let base = run.base_way().unwrap_or_default();
    for name in named.into_iter().filter(|name| *name != base) {
        let limit = unthrottled(name);
        let of = |variant: &str| values(&run.cells, &limit, variant);
        let found = interval::repetition_ratio(&of(name), &of(base));
        if let Some(ratio) = found {
            let bounds = ratio.bounds.map_or_else(String::new, |(low, high)| {
                format!(" ({low:.3} to {high:.3})")
            });
            let _ = write!(
                text,
                "{name}: {:.3}{bounds} of {base}{}. ",
                ratio.value,
                cost(run, name)
            );
        }
    }
    if all > 0 {
        let _ = write!(text, "{held} of {all} limits held.");
    }
    text.trim_end().to_owned()
}

/// What the sentence looks at: how many records a second went through a subject as fast as it goes.
fn unthrottled(subject: &str) -> FigureLimit {
    FigureLimit {
        side: ClientSide::Produce.name().to_owned(),
        rate_per_s: None,
        figure: "records_per_s".to_owned(),
        of: subject.to_owned(),
        over: None,
        minus: None,
        at_most: None,
        low_at_least: None,
    }
}

/// Mean over the same repetitions.
fn cost(run: &Run, subject: &str) -> String {
    let is_one = |cell: &&Cell| {
        cell.is_valid()
            && cell.architecture == ClientSide::Produce.name()
            && cell.variant.as_deref() == Some(subject)
            && !cell.parameters.contains_key(RATE)
    };
    let cells = run.cells.iter().filter(is_one);
    let costs: Vec<f64> = cells
        .filter_map(|cell| cell.figures.get(CPU_PER_GB).copied())
        .collect();
    interval::repetition_mean(&costs)
        .map_or_else(String::new, |cost| format!(", {cost:.2} CPU s/GB"))
}

/// A bare relay takes far more.
const CPU_PER_GB_MIN: f64 = 0.05;

#[cfg(test)]
mod tests;
