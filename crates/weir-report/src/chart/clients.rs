//! Line charts of a metric by number of clients, with published results for other hardware.

use weir_stats::run::{ReferenceRow, Run};

use super::axis::Scale;
use super::lines::{ChartPoint, LineStyle, Series, XAxis, connected, draw, legend, xs, ys};
use super::plot::{Plot, tick, time_plot};
use super::style::slot;
use crate::format;
use crate::view::{self, Level, RowFigures, RowStatus};

/// Draws the mean response time; returns `None` without values.
pub(crate) fn latency(run: &Run, levels: &[Level<'_>]) -> Option<String> {
    let lines = lines(
        run,
        levels,
        |figures| figures.mean_us,
        |row| row.latency_mean_ms.map(|ms| ms as f64 * 1e3),
        |us| format!("mean {} ms", format::number(Some(us / 1e3))),
    )?;
    let values_us: Vec<f64> = ys(&lines).collect();
    let label = "Mean latency by number of clients";
    Some(drawn(
        time_plot(label, "Mean latency", &values_us).0,
        &lines,
    ))
}

/// Draws the total bandwidth of all clients; returns `None` without values.
pub(crate) fn bandwidth(run: &Run, levels: &[Level<'_>]) -> Option<String> {
    let lines = lines(
        run,
        levels,
        |figures| figures.mbit_per_s,
        |row| row.throughput_bit_per_s.map(|bits| bits as f64 / 1e6),
        |mbit| format!("{} Mbit/s", format::number(Some(mbit))),
    )?;
    let title = "total Mbit/s received by clients, log scale";
    let plot = Plot::new(
        "Bandwidth by number of clients",
        Scale::log(ys(&lines)),
        title,
        tick,
    );
    Some(drawn(plot, &lines))
}

/// Returns the lines of this run and the published ones, or `None` if this run has no values.
fn lines(
    run: &Run,
    levels: &[Level<'_>],
    own: impl Fn(&RowFigures) -> Option<f64>,
    theirs: impl Fn(&ReferenceRow) -> Option<f64>,
    show: impl Fn(f64) -> String,
) -> Option<Vec<Series>> {
    let point = |name: &str, clients: u64, y: f64| {
        let tip = format!("{name} at {} clients: {}", format::count(clients), show(y));
        ChartPoint::new(clients as f64, y, tip)
    };
    let mut lines: Vec<Series> = Vec::new();
    for name in view::subjects(run) {
        let rows = levels.iter().flat_map(|level| &level.rows);
        let points = rows.filter(|row| row.name == name).map(|row| {
            let figures = Some(&row.figures).filter(|_| row.state == RowStatus::Valid);
            let value = figures.and_then(&own).filter(|value| *value > 0.0)?;
            Some(point(&name, row.clients(), value))
        });
        lines.push(Series {
            points: connected(points),
            slot: slot(run, &name),
            style: LineStyle::Marked,
            name,
        });
    }
    xs(&lines).next()?;
    let published = run.reference.iter().flat_map(|reference| &reference.rows);
    for row in published.filter(|row| view::is_run(levels, row)) {
        let Some(value) = theirs(row).filter(|value| row.sustained && *value > 0.0) else {
            continue;
        };
        let name = format!("{}, published", row.series);
        let at = lines.iter().position(|line| line.name == name);
        let at = at.unwrap_or(lines.len());
        if at == lines.len() {
            let architecture = row.architecture.as_deref();
            lines.push(Series {
                name: name.clone(),
                slot: architecture.map_or("a4", |name| slot(run, name)),
                style: LineStyle::Published,
                points: Vec::new(),
            });
        }
        lines[at].points.push(point(&name, row.clients, value));
    }
    for line in &mut lines {
        line.points.sort_by(|a, b| a.x.total_cmp(&b.x));
    }
    Some(lines)
}

fn drawn(mut plot: Plot, lines: &[Series]) -> String {
    let title = match lines.iter().any(|line| line.style == LineStyle::Published) {
        true => "clients, log scale; published results are from other hardware",
        false => "clients, log scale",
    };
    legend(&mut plot, lines);
    draw(plot, &XAxis::new(title, Scale::log(xs(lines))), lines)
}
