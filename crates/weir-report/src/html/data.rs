//! JSON block for the page's script: percentile curves and values per second of every cell.
//!
//! It contains only numbers and names that the script inserts as text. The static part of the page
//! shows the same data.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use weir_stats::run::{Cell, SeriesPoint};

use crate::chart::{Curve, role_slot, slot, stage_slot};
use crate::cost;
use crate::escape;
use crate::run_dir::RunData;
use crate::timeline::{BINS_PER_DECADE, Timeline, TimelineSecond};
use crate::view::{self, Level};

/// Maximum number of points per chart; a screen has no more columns.
const SECONDS_MAX: usize = 900;

type DataColumn = Vec<Option<f64>>;

/// Returns the JSON, escaped for a script element.
pub(crate) fn block(data: &RunData, levels: &[Level<'_>], initial: Option<&Level<'_>>) -> String {
    let run = &data.run;
    let names = view::subjects(run);
    let stages: BTreeSet<&String> = run.cells.iter().flat_map(|it| it.latency.keys()).collect();
    let series = run.cells.iter().flat_map(|cell| &cell.series);
    let roles: BTreeSet<&String> = series.flat_map(|point| point.cpu_cores.keys()).collect();
    let level = |level: &Level<'_>| {
        let rows = level.valid().map(|row| row_data(data, &names, row));
        json!({ "label": level.label(), "rows": rows.collect::<Vec<_>>() })
    };
    let is_initial = |level: &Level<'_>| initial.is_some_and(|it| std::ptr::eq(level, it));
    let colours = |names: &[&String], slot: &dyn Fn(&str) -> &'static str| -> Vec<Value> {
        names.iter().map(|name| json!([name, slot(name)])).collect()
    };
    let mut page = json!({
        "subjects": colours(&Vec::from_iter(&names), &|name| slot(run, name)),
        "stages": colours(&Vec::from_iter(stages), &stage_slot),
        "roles": colours(&Vec::from_iter(roles), &role_slot),
        "bins_per_decade": BINS_PER_DECADE,
        "levels": levels.iter().map(level).collect::<Vec<_>>(),
        "options": cost_options(data, &names),
        "prices": cost::PRICES,
        // Index of the level shown first.
        "level": levels.iter().position(is_initial).unwrap_or(0),
    });
    clean(&mut page);
    escape::json_in_html(&page.to_string())
}

/// Removes characters that control a terminal or reorder text, and needless digits.
fn clean(value: &mut Value) {
    match value {
        Value::String(text) => *text = escape::terminal(text),
        Value::Number(number) if number.is_f64() => *value = number.as_f64().map(short).into(),
        Value::Array(values) => values.iter_mut().for_each(clean),
        Value::Object(fields) => {
            for (name, mut field) in std::mem::take(fields) {
                clean(&mut field);
                fields.insert(escape::terminal(&name), field);
            }
        }
        _ => {}
    }
}

fn cost_options(data: &RunData, names: &[String]) -> Vec<Value> {
    let choices = cost::choices(&data.run);
    let options: Vec<_> = choices.iter().flatten().collect();
    let option = |name: &String| {
        let own = options.iter().filter(|option| option.name == *name);
        let points: Vec<_> = own.collect();
        json!({
            "name": name,
            "slot": slot(&data.run, name),
            "floor": points.iter().any(|option| option.is_floor),
            "points": points,
        })
    };
    let names = names.iter().filter(|_| !options.is_empty());
    names.map(option).collect()
}

fn row_data(data: &RunData, names: &[String], row: &view::SubjectRow<'_>) -> Value {
    // By stage: latency in microseconds at steps of 1/20 nine.
    let curves = Curve::of_row(data, row).into_iter().map(|curve| {
        let values = curve.points.iter().map(|(_, us)| *us);
        (curve.name, values.collect::<Vec<f64>>())
    });
    let valid = row.cells.iter().filter(|cell| cell.is_valid());
    json!({
        "subject": names.iter().position(|name| *name == row.name).unwrap_or(0),
        "curves": curves.collect::<BTreeMap<_, _>>(),
        "cells": valid.map(|cell| cell_data(data, cell)).collect::<Vec<_>>(),
    })
}

fn cell_data(data: &RunData, cell: &Cell) -> Value {
    let timeline = data.timeline(cell);
    let seconds = timeline.iter().flat_map(|timeline| &timeline.seconds);
    let seconds: BTreeMap<u32, &TimelineSecond> = seconds.map(|it| (it.t_s, it)).collect();
    let second = |point: &SeriesPoint| seconds.get(&(point.t_s.round().max(0.0) as u32)).copied();
    let steps = StepSeries::of(&cell.series);
    let points = cell.series.iter();
    let roles: BTreeSet<&String> = points.flat_map(|point| point.cpu_cores.keys()).collect();
    let cpu = roles.into_iter().map(|role| {
        let cores = steps.mean(|point| point.cpu_cores.get(role).copied());
        (role, cores)
    });
    json!({
        "repetition": cell.repetition,
        "delivering": cell.delivering_role().map(|usage| &usage.role),
        "t_s": steps.ends_s(),
        "offered": steps.mean(|point| point.offered_per_s),
        "achieved": steps.mean(|point| point.achieved_per_s),
        "delivered": steps.mean(|point| point.delivered_per_s),
        "backlog": steps.worst(|point| Some(point.backlog? as f64)),
        "lag_us": steps.worst(|point| point.lag_p99_us),
        "p50_us": steps.worst(|point| second(point).and_then(|s| s.p50_us).or(point.p50_us)),
        "p99_us": steps.worst(|point| second(point).and_then(|s| s.p99_us).or(point.p99_us)),
        "p999_us": steps.worst(|point| second(point)?.p999_us),
        "max_us": steps.worst(|point| second(point)?.max_us),
        "cpu": cpu.collect::<BTreeMap<_, _>>(),
        "noisy": cell.noisy.iter().map(|it| [it.from_s, it.until_s]).collect::<Vec<_>>(),
        "heat": timeline.and_then(|timeline| heat(&timeline.thinned(SECONDS_MAX))),
    })
}

/// The points of a series; several points of a long run are one step.
struct StepSeries<'a> {
    points: Vec<&'a SeriesPoint>,
    group: usize,
}

impl<'a> StepSeries<'a> {
    fn of(series: &'a [SeriesPoint]) -> Self {
        let points: Vec<&SeriesPoint> = series.iter().filter(|p| p.t_s.is_finite()).collect();
        Self {
            group: points.len().div_ceil(SECONDS_MAX).max(1),
            points,
        }
    }

    fn ends_s(&self) -> Vec<f64> {
        let steps = self.points.chunks(self.group);
        steps
            .filter_map(|step| step.last().map(|point| point.t_s))
            .collect()
    }

    fn worst(&self, pick: impl Fn(&SeriesPoint) -> Option<f64>) -> DataColumn {
        self.column(pick, |values| values.iter().copied().reduce(f64::max))
    }

    fn mean(&self, pick: impl Fn(&SeriesPoint) -> Option<f64>) -> DataColumn {
        self.column(pick, |values| {
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        })
    }

    fn column(
        &self,
        pick: impl Fn(&SeriesPoint) -> Option<f64>,
        reduce: impl Fn(&[f64]) -> Option<f64>,
    ) -> DataColumn {
        let steps = self.points.chunks(self.group);
        steps
            .map(|step| {
                let values = step.iter().filter_map(|point| pick(point));
                let values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
                reduce(&values)
            })
            .collect()
    }
}

fn heat(timeline: &Timeline) -> Option<Value> {
    let (low, high) = timeline.bins()?;
    let counts = |second: &TimelineSecond| -> Vec<u64> {
        let bins = (low..=high).map(|bin| second.bins.get(&bin).copied());
        bins.map(Option::unwrap_or_default).collect()
    };
    let seconds = || timeline.seconds.iter();
    Some(json!({
        "low_bin": low,
        "t_s": seconds().map(|second| second.t_s).collect::<Vec<_>>(),
        "counts": seconds().map(counts).collect::<Vec<_>>(),
    }))
}

/// Rounds to four significant digits: enough for a chart, in a third of the bytes.
fn short(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_have_four_digits() {
        assert_eq!(short(123_456.0), 123_500.0);
        assert_eq!(short(0.000_123_456), 0.000_123_5);
        assert_eq!((short(0.0), short(-2.5)), (0.0, -2.5));
    }
}
