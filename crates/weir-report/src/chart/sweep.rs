//! Metrics by parameter: one chart per metric, one line per value of a second parameter.

use std::collections::{BTreeMap, BTreeSet};

use weir_stats::interval;
use weir_stats::run::{Cell, Run};

use super::axis::Scale;
use super::lines::{ChartPoint, LineStyle, Series, XAxis, connected, draw, legend, xs, ys};
use super::plot::{Plot, tick};
use crate::format;

/// Line colours in order; a sweep chart has one subject.
const SLOTS: [&str; 7] = ["a1", "a2", "a4", "a3", "a5", "a6", "a0"];

pub(crate) struct SweepChart {
    pub(crate) title: String,
    pub(crate) svg: String,
    /// `true` if dotted lines show results of Kafka's own tool.
    pub(crate) has_tool: bool,
}

/// Returns all charts of one subject's cells; none if no parameter has two values.
pub(crate) fn sweeps(cells: &[&Cell]) -> Vec<SweepChart> {
    let Some((x_name, series_name)) = axes(cells) else {
        return Vec::new();
    };
    let names: BTreeSet<&String> = cells.iter().flat_map(|cell| cell.figures.keys()).collect();
    names
        .into_iter()
        .filter_map(|name| sweep(cells, name, x_name, series_name))
        .collect()
}

/// Returns the parameter with most values, and another one with more than one value.
fn axes<'a>(cells: &[&'a Cell]) -> Option<(&'a str, Option<&'a str>)> {
    let mut values: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (name, value) in cells.iter().flat_map(|cell| &cell.parameters) {
        values.entry(name).or_default().insert(value.to_bits());
    }
    let mut by_count: Vec<(&str, usize)> = values
        .into_iter()
        .map(|(name, values)| (name, values.len()))
        .filter(|(_, count)| *count > 1)
        .collect();
    // A rate is always the x axis, even if there are as many sizes.
    by_count.sort_by_key(|(name, count)| (!name.ends_with("_per_s"), usize::MAX - count));
    let mut names = by_count.into_iter().map(|(name, _)| name);
    Some((names.next()?, names.next()))
}

fn sweep(cells: &[&Cell], figure: &str, x_name: &str, series: Option<&str>) -> Option<SweepChart> {
    let mut by_line: BTreeMap<(u64, bool), BTreeMap<u64, Vec<f64>>> = BTreeMap::new();
    for cell in cells {
        let at = |name: &str| cell.parameters.get(name).copied().filter(|v| *v >= 0.0);
        let Some(x) = at(x_name) else { continue };
        let line = series.and_then(at).unwrap_or(0.0);
        // The bits of non-negative floats sort like the floats.
        let line = by_line.entry((line.to_bits(), is_tool(cell))).or_default();
        let values = line.entry(x.to_bits()).or_default();
        let figure = cell.figures.get(figure).filter(|_| cell.is_valid());
        values.extend(figure);
    }
    let values: BTreeSet<u64> = by_line.keys().map(|(value, _)| *value).collect();
    let lines: Vec<Series> = by_line
        .into_iter()
        .map(|((value, is_tool), points)| {
            let index = values.iter().position(|it| *it == value).unwrap_or(0);
            let value = f64::from_bits(value);
            let name = series.map_or_else(String::new, |name| value_text(name, value));
            let label = match is_tool {
                true => format!("Kafka's tool {name}"),
                false => name.clone(),
            };
            Series {
                slot: SLOTS[index % SLOTS.len()],
                style: match is_tool {
                    true => LineStyle::Secondary,
                    false => LineStyle::Marked,
                },
                points: connected(
                    points
                        .into_iter()
                        .map(|(x, values)| point(&label, f64::from_bits(x), &values, x_name)),
                ),
                name,
            }
        })
        .collect();
    let lines: Vec<Series> = lines
        .into_iter()
        .filter(|it| !it.points.is_empty())
        .collect();
    if !lines.iter().any(|line| line.points.len() > 1) {
        return None;
    }
    let title = words(figure);
    let mut plot = frame(&title, &lines);
    legend(&mut plot, &lines);
    let scale = Scale::log(xs(&lines));
    let x = XAxis {
        title: &format!("{}, log scale", words(x_name)),
        scale,
        ticks: labelled(xs(&lines).collect(), scale)
            .map(|value| (value, value_text(x_name, value)))
            .collect(),
        grid: false,
    };
    Some(SweepChart {
        has_tool: lines.iter().any(|line| line.style == LineStyle::Secondary),
        svg: draw(plot, &x, &lines),
        title,
    })
}

/// Returns the values without those whose labels would be too close to be read.
fn labelled(mut values: Vec<f64>, scale: Scale) -> impl Iterator<Item = f64> {
    values.sort_by(f64::total_cmp);
    let mut last = f64::NEG_INFINITY;
    values.into_iter().filter(move |value| {
        let is_free = scale.fraction(*value) - last > 0.11;
        if is_free {
            last = scale.fraction(*value);
        }
        is_free
    })
}

/// Creates a plot with a linear axis from zero, or a logarithmic axis if the values differ by more
/// than a factor of 200.
fn frame(title: &str, lines: &[Series]) -> Plot {
    let least = ys(lines).fold(f64::INFINITY, f64::min);
    if least > 0.0 && ys(lines).fold(0.0, f64::max) > least * 200.0 {
        let y_title = format!("{title}, log scale");
        return Plot::new(title, Scale::log(ys(lines)), &y_title, tick);
    }
    Plot::new(title, Scale::from_zero(ys(lines)), title, tick)
}

fn point(line: &str, x: f64, values: &[f64], x_name: &str) -> Option<ChartPoint> {
    let y = interval::repetition_mean(values)?;
    let tip = format!(
        "{line} at {}: {}",
        format::parameter(x_name, x),
        format::number(Some(y))
    );
    Some(ChartPoint::new(x, y, tip.trim_start().to_owned()))
}

fn value_text(name: &str, value: f64) -> String {
    match name.ends_with("_bytes") {
        true => format::binary_bytes(value),
        false => tick(value),
    }
}

/// Returns a metric name in words: `rate_mib_per_s` as `rate, MiB/s`.
pub(crate) fn words(name: &str) -> String {
    let units = [
        ("_mib_per_s", "MiB/s"),
        ("_per_s", "per second"),
        ("_bytes", "bytes"),
        ("_mib", "MiB"),
        ("_ms", "ms"),
        ("_us", "µs"),
    ];
    let found = units
        .into_iter()
        .find_map(|(suffix, unit)| Some((name.strip_suffix(suffix)?, unit)));
    match found {
        // The rest of `mib_per_s` is a unit itself.
        Some(("mib", "per second")) => "speed, MiB/s".to_owned(),
        Some((rest, "bytes")) => rest.replace('_', " "),
        Some((rest, unit)) => format!("{}, {unit}", rest.replace('_', " ")),
        None => name.replace('_', " "),
    }
}

/// Returns `true` for results of Apache Kafka's own tools. Their lines are dotted, in the colour of
/// Weir's line.
fn is_tool(cell: &Cell) -> bool {
    cell.architecture.starts_with(TOOL)
}

const TOOL: &str = "kafka_";

/// Groups cells with parameters by subject; results of Kafka's tools go with Weir's.
pub(crate) fn by_subject(run: &Run) -> Vec<(String, Vec<&Cell>)> {
    let mut all: Vec<(String, Vec<&Cell>)> = Vec::new();
    for cell in run.cells.iter().filter(|cell| !cell.parameters.is_empty()) {
        let name = cell.name();
        let name = name.strip_prefix(TOOL).unwrap_or(&name).to_owned();
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, cells)) => cells.push(cell),
            None => all.push((name, vec![cell])),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(size: f64, rate: f64, speed: f64) -> Cell {
        Cell {
            architecture: "producer".into(),
            parameters: BTreeMap::from([
                ("record_size_bytes".into(), size),
                ("target_per_s".into(), rate),
            ]),
            figures: BTreeMap::from([("mib_per_s".into(), speed)]),
            ..Cell::default()
        }
    }

    #[test]
    fn rate_is_x_axis_and_sizes_are_lines() {
        let cells = [
            cell(100.0, 1e3, 1.0),
            cell(100.0, 1e4, 9.0),
            cell(1024.0, 1e3, 2.0),
            cell(1024.0, 1e4, 11.0),
        ];
        let cells: Vec<&Cell> = cells.iter().collect();
        let charts = sweeps(&cells);
        assert_eq!(charts.len(), 1);
        assert_eq!(charts[0].title, "speed, MiB/s");
        for text in ["1 KiB", "100 B", "target, per second, log scale", "1,000"] {
            assert!(charts[0].svg.contains(text), "{text}: {}", charts[0].svg);
        }
        assert!(sweeps(&cells[..1]).is_empty());
    }

    #[test]
    fn kafka_tool_results_share_the_chart() {
        let mut run = crate::sweep_table::tests::run(vec![
            cell(100.0, 1e3, 1.0),
            cell(100.0, 1e4, 9.0),
            cell(100.0, 1e3, 1.1),
            cell(100.0, 1e4, 8.0),
        ]);
        for cell in &mut run.cells[2..] {
            cell.architecture = "kafka_producer".into();
        }
        let subjects = by_subject(&run);
        assert_eq!(subjects.len(), 1);
        let charts = sweeps(&subjects[0].1);
        assert!(charts[0].has_tool && charts[0].svg.contains("line published a1"));
        assert!(charts[0].svg.contains("Kafka's tool"), "{}", charts[0].svg);
        assert!(
            !charts[0].svg.contains("class=\"key\""),
            "a single series has no legend"
        );
        assert!(!sweeps(&subjects[0].1[..2])[0].has_tool);
    }

    #[test]
    fn metric_names_become_words_with_unit() {
        assert_eq!(words("rate_mib_per_s"), "rate, MiB/s");
        assert_eq!(words("rebalance_ms"), "rebalance, ms");
        assert_eq!(words("messages"), "messages");
        assert_eq!(words("record_size_bytes"), "record size");
    }
}
