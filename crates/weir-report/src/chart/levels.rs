//! Charts by number of clients: latency as dot and whisker, cost as bars.

use weir_stats::run::Run;

use super::axis::Scale;
use super::plot::{LegendSymbol, Plot, tick, time_plot};
use super::style::{entries, slot};
use super::svg::Anchor;
use crate::format::{self, number};
use crate::view::{self, Level, SubjectRow};

/// Share of a level's width that its marks occupy.
const BAND: f64 = 0.72;

/// The place of one subject at one level.
struct LevelMark<'a> {
    row: &'a SubjectRow<'a>,
    x: f64,
    class: &'static str,
    bar_width: f64,
}

/// Draws the marks of all subjects, next to each other within a level.
fn draw(
    run: &Run,
    levels: &[Level<'_>],
    mut plot: Plot,
    symbol: LegendSymbol,
    mark: impl Fn(&mut Plot, &LevelMark<'_>),
) -> String {
    let names = view::subjects(run);
    plot.legend(symbol, &entries(&names, run));
    let band = 1.0 / levels.len().max(1) as f64;
    let step = band * BAND / names.len().max(1) as f64;
    for (index, level) in levels.iter().enumerate() {
        let middle = (index as f64 + 0.5) * band;
        plot.x_tick(middle, &format::count(level.clients), false);
        for row in level.valid() {
            let order = names.iter().position(|name| *name == row.name).unwrap_or(0);
            let offset = (order as f64 - (names.len() as f64 - 1.0) / 2.0) * step;
            let it = LevelMark {
                row,
                x: plot.x(middle + offset),
                class: slot(run, &row.name),
                bar_width: (96.0 * band).clamp(5.0, 26.0),
            };
            mark(&mut plot, &it);
        }
    }
    plot.x_title("clients");
    plot.finish()
}

impl LevelMark<'_> {
    fn bar(&self, plot: &mut Plot, style: &str, (low, high): (f64, f64), tip: &str) {
        let (top, bottom) = (plot.y(high), plot.y(low));
        let at = (self.x - self.bar_width / 2.0, top);
        let class = format!("{style} {}", self.class);
        plot.svg
            .rect(at, (self.bar_width, bottom - top), &class, tip);
    }

    fn value(&self, plot: &mut Plot, height: f64, text: &str) {
        let at = (self.x, plot.y(height) - 4.0);
        plot.svg.text(at, Anchor::Middle, "value", text);
    }

    /// Draws a range between two heights in the drawing.
    fn range(&self, plot: &mut Plot, style: &str, from: f64, to: f64) {
        let class = format!("{style} {}", self.class);
        plot.svg.line((self.x, from), (self.x, to), &class);
    }

    fn dot(&self, plot: &mut Plot, y: f64, tip: &str) {
        let class = format!("fill {}", self.class);
        plot.svg.circle((self.x, y), 4.6, &class, tip);
    }
}

fn rows<'a>(levels: &'a [Level<'a>]) -> impl Iterator<Item = &'a SubjectRow<'a>> {
    levels.iter().flat_map(Level::valid)
}

/// Draws p50 as a dot, p99 as the end of a thick line, the maximum as the end of a thin line.
pub(crate) fn latency(run: &Run) -> String {
    let levels = view::levels(run);
    let values_us: Vec<f64> = rows(&levels)
        .flat_map(|row| [row.figures.p50_us, row.figures.p99_us, row.figures.max_us])
        .flatten()
        .collect();
    let (plot, unit) = time_plot("Latency by number of clients", "Latency", &values_us);
    draw(run, &levels, plot, LegendSymbol::Dot, |plot, mark| {
        let figures = &mark.row.figures;
        let (Some(p50_us), Some(max_us)) = (figures.p50_us, figures.max_us) else {
            return;
        };
        let p99 = plot.y(figures.p99_us.unwrap_or(max_us));
        let (low, high) = (plot.y(p50_us), plot.y(max_us));
        mark.range(plot, "thin", p99, high);
        mark.range(plot, "thick", low, p99);
        let class = format!("thick {}", mark.class);
        plot.svg
            .line((mark.x - 5.0, p99), (mark.x + 5.0, p99), &class);
        let show = |us: Option<f64>| format!("{} {}", unit.show(us), unit.name());
        let tip = format!(
            "{}: p50 {}, p99 {}, max {}",
            mark.row.name,
            show(figures.p50_us),
            show(figures.p99_us),
            show(figures.max_us)
        );
        mark.dot(plot, low, &tip);
    })
}

/// Draws CPU time per delivered record: the delivering process solid, the broker pale.
pub(crate) fn cpu(run: &Run) -> String {
    let levels = view::levels(run);
    let servers = |row: &SubjectRow<'_>| {
        let own = row.figures.cpu_us_delivering?;
        Some(row.figures.cpu_us_servers.unwrap_or(own).max(own))
    };
    let y = Scale::from_zero(rows(&levels).filter_map(servers));
    let plot = Plot::new(
        "CPU time per delivered record",
        y,
        "CPU, µs per record",
        tick,
    );
    draw(run, &levels, plot, LegendSymbol::Bar, |plot, mark| {
        let own = mark.row.figures.cpu_us_delivering;
        let Some((own, servers)) = own.zip(servers(mark.row)) else {
            return;
        };
        let (name, shown, all) = (&mark.row.name, number(Some(own)), number(Some(servers)));
        let tip = format!("{name}: {shown} µs, including the broker {all} µs");
        mark.bar(plot, "pale", (own, servers), &tip);
        mark.bar(plot, "bar", (0.0, own), &tip);
        mark.value(plot, servers, &shown);
    })
}

/// Draws memory of the delivering process per client; returns `None` if it was not measured.
pub(crate) fn memory(run: &Run) -> Option<String> {
    let levels = view::levels(run);
    let kilobytes = |row: &SubjectRow<'_>| {
        let bytes = row.figures.memory_per_client_bytes?;
        Some(bytes.max(0.0) / 1e3)
    };
    rows(&levels).find_map(kilobytes)?;
    let y = Scale::from_zero(rows(&levels).filter_map(kilobytes));
    let plot = Plot::new("Memory per client", y, "Memory, kB per client", tick);
    Some(draw(run, &levels, plot, LegendSymbol::Bar, |plot, mark| {
        let Some(value) = kilobytes(mark.row) else {
            return;
        };
        let shown = number(Some(value));
        let tip = format!("{}: {shown} kB per client", mark.row.name);
        mark.bar(plot, "bar", (0.0, value), &tip);
        mark.value(plot, value, &shown);
    }))
}

/// Draws deliveries per second, with a line at the expected rate.
pub(crate) fn throughput(run: &Run) -> String {
    let levels = view::levels(run);
    let y = Scale::from_zero(rows(&levels).filter_map(|row| row.figures.expected_per_s));
    let plot = Plot::new("Deliveries per second", y, "Deliveries per second", tick);
    draw(run, &levels, plot, LegendSymbol::Bar, |plot, mark| {
        let figures = &mark.row.figures;
        let Some(delivered) = figures.delivered_per_s else {
            return;
        };
        let (shown, expected) = (number(Some(delivered)), number(figures.expected_per_s));
        let name = &mark.row.name;
        let tip = format!("{name}: {shown} of {expected} expected deliveries per second");
        mark.bar(plot, "bar", (0.0, delivered), &tip);
        if let Some(expected) = figures.expected_per_s {
            let y = plot.y(expected);
            plot.svg.line((mark.x - 15.0, y), (mark.x + 15.0, y), "due");
        }
    })
}

/// Draws the spread of the clients' individual p99, best to worst; returns `None` if no cell has
/// it.
pub(crate) fn fairness(run: &Run) -> Option<String> {
    let levels = view::levels(run);
    let fair = |row: &SubjectRow<'_>| row.representative()?.fairness;
    let all = rows(&levels).filter_map(fair);
    let values_us: Vec<f64> = all
        .filter(|it| it.client_p99_max_us.is_some())
        .flat_map(|it| [it.client_p99_min_us, it.client_p99_max_us])
        .flatten()
        .collect();
    values_us.first()?;
    let (plot, unit) = time_plot("p99 per client", "p99 per client", &values_us);
    Some(draw(run, &levels, plot, LegendSymbol::Dot, |plot, mark| {
        let Some(it) = fair(mark.row) else { return };
        let y = |us: f64| plot.y(us);
        let (low, high) = (it.client_p99_min_us.map(y), it.client_p99_max_us.map(y));
        let (middle, most) = (it.client_p99_p50_us.map(y), it.client_p99_p90_us.map(y));
        if let (Some(low), Some(high)) = (low, high) {
            mark.range(plot, "thin", low, high);
        }
        if let (Some(middle), Some(most), true) = (middle, most, high.is_some()) {
            let show = |us: Option<f64>| format!("{} {}", unit.show(us), unit.name());
            let (median, worst) = (show(it.client_p99_p50_us), show(it.client_p99_max_us));
            let tip = format!("{}: median client {median}, worst {worst}", mark.row.name);
            mark.range(plot, "thick", middle, most);
            mark.dot(plot, middle, &tip);
        }
    }))
}
