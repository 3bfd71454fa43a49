//! Line charts of a metric by number of clients, with published results for other hardware.

use weir_stats::run::{ReferenceRow, Run};

use super::axis::Scale;
use super::levels::time_plot;
use super::plot::{LegendSymbol, Plot, tick};
use super::style::slot;
use crate::format;
use crate::view::{self, RowFigures};

/// Draws the mean response time; returns `None` without values.
pub(crate) fn latency(run: &Run) -> Option<String> {
    let lines = lines(
        run,
        |figures| figures.mean_us,
        |row| row.latency_mean_ms.map(|ms| ms as f64 * 1e3),
    );
    let values_us: Vec<f64> = values(&lines)?;
    let (plot, unit) = time_plot(
        "Mean latency by number of clients",
        "Mean latency",
        &values_us,
    );
    let show = |us: f64| format!("mean {} {}", unit.show(Some(us)), unit.name());
    Some(draw(plot, &lines, show))
}

/// Draws the total bandwidth of all clients; returns `None` without values.
pub(crate) fn bandwidth(run: &Run) -> Option<String> {
    let lines = lines(
        run,
        |figures| figures.mbit_per_s,
        |row| row.throughput_bit_per_s.map(|bits| bits as f64 / 1e6),
    );
    let scale = Scale::log(values(&lines)?.into_iter());
    let plot = Plot::new(
        "Bandwidth by number of clients",
        scale,
        "total Mbit/s received by clients, log scale",
        tick,
    );
    let show = |mbit: f64| format!("{} Mbit/s", format::number(Some(mbit)));
    Some(draw(plot, &lines, show))
}

/// One series: pairs of number of clients and value, ascending.
struct ClientSeries {
    name: String,
    slot: &'static str,
    published: bool,
    /// `true` if the legend lists the series. Published series share one entry.
    in_legend: bool,
    points: Vec<(u64, f64)>,
}

fn lines(
    run: &Run,
    own: impl Fn(&RowFigures) -> Option<f64>,
    theirs: impl Fn(&ReferenceRow) -> Option<f64>,
) -> Vec<ClientSeries> {
    let levels = view::levels(run);
    let mut lines: Vec<ClientSeries> = Vec::new();
    for name in view::subjects(run) {
        let rows = levels.iter().flat_map(view::Level::valid);
        let points = rows
            .filter(|row| row.name == name)
            .filter_map(|row| Some((row.clients(), own(&row.figures)?)));
        lines.push(ClientSeries {
            points: points.collect(),
            slot: slot(run, &name),
            published: false,
            in_legend: true,
            name,
        });
    }
    for row in run.reference.iter().flat_map(|reference| &reference.rows) {
        let Some(value) = theirs(row).filter(|_| row.sustained) else {
            continue;
        };
        let name = format!("{}, published", row.series);
        let at = lines.iter().position(|line| line.name == name);
        let at = at.unwrap_or_else(|| {
            let architecture = row.architecture.as_deref();
            lines.push(ClientSeries {
                name,
                slot: architecture.map_or("a4", |name| slot(run, name)),
                published: true,
                in_legend: false,
                points: Vec::new(),
            });
            lines.len() - 1
        });
        lines[at].points.push((row.clients, value));
    }
    for line in &mut lines {
        line.points.retain(|(_, value)| *value > 0.0);
        line.points.sort_by_key(|(clients, _)| *clients);
    }
    lines
}

/// Returns all values, or `None` if this run has none of them.
fn values(lines: &[ClientSeries]) -> Option<Vec<f64>> {
    let ours = lines.iter().filter(|line| !line.published);
    ours.flat_map(|line| &line.points).next()?;
    let all = lines.iter().flat_map(|line| &line.points);
    Some(all.map(|(_, value)| *value).collect())
}

fn draw(mut plot: Plot, lines: &[ClientSeries], show: impl Fn(f64) -> String) -> String {
    let entries = lines
        .iter()
        .filter(|line| line.in_legend)
        .map(|line| (line.name.as_str(), line.slot));
    let mut entries: Vec<_> = entries.collect();
    if lines.iter().any(|line| line.published) {
        entries.push(("published", "pub"));
    }
    plot.legend(LegendSymbol::Line, &entries);
    let x = Scale::log(
        lines
            .iter()
            .flat_map(|line| &line.points)
            .map(|(clients, _)| *clients as f64),
    );
    for clients in x.ticks() {
        plot.x_tick(x.fraction(clients), &tick(clients), false);
    }
    plot.x_title(match lines.iter().any(|line| line.published) {
        true => "clients, log scale; published results are from other hardware",
        false => "clients, log scale",
    });
    for line in lines {
        let places: Vec<_> = line
            .points
            .iter()
            .map(|(clients, value)| (plot.x(x.fraction(*clients as f64)), plot.y(*value)))
            .collect();
        let (stroke, mark) = match line.published {
            true => ("line published", "ring"),
            false => ("line", "fill"),
        };
        plot.svg.path(&places, &format!("{stroke} {}", line.slot));
        for (place, (clients, value)) in places.iter().zip(&line.points) {
            let tip = format!(
                "{} at {} clients: {}",
                line.name,
                format::count(*clients),
                show(*value)
            );
            let radius = if line.published { 2.6 } else { 4.0 };
            plot.svg
                .circle(*place, radius, &format!("{mark} {}", line.slot), &tip);
        }
    }
    plot.finish()
}
