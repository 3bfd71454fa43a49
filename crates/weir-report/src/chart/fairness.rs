//! Spread of the clients' individual p99, best to worst.

use weir_stats::run::{Fairness, Run};

use super::levels::time_plot;
use super::plot::LegendSymbol;
use super::style::{entries, slot};
use crate::format;
use crate::view::{self, Level};

/// Draws the range of per-client p99 by level and architecture; returns `None` if no cell has it.
pub(crate) fn fairness(run: &Run) -> Option<String> {
    let levels = view::levels(run);
    let found: Vec<(usize, &str, Fairness)> = levels
        .iter()
        .enumerate()
        .flat_map(|(index, level)| level.valid().map(move |row| (index, row)))
        .filter_map(|(index, row)| Some((index, row.name.as_str(), row.sample()?.fairness?)))
        .filter(|(_, _, fair)| fair.client_p99_max_us.is_some())
        .collect();
    let values_us: Vec<f64> = found
        .iter()
        .flat_map(|(_, _, fair)| [fair.client_p99_min_us, fair.client_p99_max_us])
        .flatten()
        .collect();
    if values_us.is_empty() {
        return None;
    }
    let (mut plot, unit) = time_plot("p99 per client", "p99 per client", &values_us);
    let names = view::subjects(run);
    plot.legend(LegendSymbol::Dot, &entries(&names, run));
    plot.x_title("clients");
    mark_levels(&mut plot, &levels);
    for (index, name, fair) in found {
        let order = names.iter().position(|other| other == name).unwrap_or(0) as f64;
        let spread = (order + 1.0) / (names.len() as f64 + 1.0) - 0.5;
        let x = plot.x((index as f64 + 0.5 + spread * 0.8) / levels.len() as f64);
        let class = slot(run, name);
        let y = |value_us: Option<f64>| value_us.map(|us| plot.y(us));
        let (low, high) = (y(fair.client_p99_min_us), y(fair.client_p99_max_us));
        let (middle, most) = (y(fair.client_p99_p50_us), y(fair.client_p99_p90_us));
        let tip = format!(
            "{name}: median client {} {unit}, worst {} {unit}",
            unit.show(fair.client_p99_p50_us),
            unit.show(fair.client_p99_max_us),
            unit = unit.name()
        );
        if let (Some(low), Some(high)) = (low, high) {
            plot.svg.line((x, low), (x, high), &format!("thin {class}"));
        }
        if let (Some(middle), Some(most)) = (middle, most) {
            plot.svg
                .line((x, middle), (x, most), &format!("thick {class}"));
            plot.svg
                .circle((x, middle), 4.6, &format!("fill {class}"), &tip);
        }
    }
    Some(plot.finish())
}

fn mark_levels(plot: &mut super::plot::Plot, levels: &[Level<'_>]) {
    for (index, level) in levels.iter().enumerate() {
        let place = (index as f64 + 0.5) / levels.len() as f64;
        plot.x_tick(place, &format::count(level.clients), false);
    }
}
