//! Latency by percentile: all subjects of a level, the stages of one subject, and mean stages.

use maud::{Markup, html};
use weir_stats::run::StageMean;

use super::element::{chart, part};
use crate::chart::{percentiles, stages};
use crate::format::{self, TimeUnit};
use crate::run_dir::RunData;
use crate::table::ReportTable;
use crate::view::{Level, times_us};

/// Returns subject curves for every level, stage curves and mean stages for the level shown first.
pub(crate) fn parts(data: &RunData, levels: &[Level<'_>], initial: Option<&Level<'_>>) -> Markup {
    let plot = |level: &Level<'_>| {
        let caption = format!("Response time, {}.", level.label());
        Some(chart(&percentiles(data, level)?, &caption))
    };
    let plots: Vec<Markup> = levels.iter().filter_map(plot).collect();
    let stage_means = initial.map(mean_stages).unwrap_or_default();
    let stage_means = part("stages", "Stages of the mean response time", &stage_means);
    if plots.is_empty() {
        return stage_means;
    }
    let content = html! {
        div.live {}
        div."still grid2" {
            @for plot in plots { (plot) }
            @if let Some(level) = initial { @for row in level.valid() {
                @if let Some(svg) = stages(data, row) {
                    (chart(&svg, &format!("All stages of {}, {}.", row.name, level.label())))
                }
            } }
        }
        p.caption {
            "A point is the share of records that were at least this fast; each step to the right \
             has ten times fewer records above it. A curve ends where samples are too few for the \
             next percentile. " b { "Response" } " starts at the due time of a record, "
            b { "service" } " at its send; the difference is schedule lag."
        }
        (no_script(levels))
    };
    html! { (part("percentiles", "By percentile", &content)) (stage_means) }
}

/// Returns the values as a table, for browsers without scripts.
fn no_script(levels: &[Level<'_>]) -> Markup {
    let rows = levels.iter().flat_map(Level::valid);
    let cells: Vec<_> = rows.filter_map(|row| row.representative()).collect();
    let medians_us = cells.iter().filter_map(|cell| cell.response()?.p50_us);
    let unit = TimeUnit::for_values_us(medians_us);
    let headings = ["Cell", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "max"];
    let mut table = ReportTable::new(1, headings);
    for cell in cells {
        let Some(it) = cell.response() else { continue };
        // From the median on.
        let times = times_us(it).into_iter().skip(3).map(|us| unit.show(us));
        table.row("", [cell.id()].into_iter().chain(times));
    }
    html! { noscript { p.caption { "Response time in " (unit.name()) ":" } (table) } }
}

const WIDTH: f64 = 420.0;

/// Returns the stages of the mean response time, one bar per subject; nothing without stages.
fn mean_stages(level: &Level<'_>) -> Markup {
    let rows = level.valid();
    let rows = rows.filter_map(|row| Some((&row.name, row.representative()?.stages.as_slice())));
    let sum = |stages: &[StageMean]| stages.iter().map(|one| one.mean_us.max(0.0)).sum::<f64>();
    let rows: Vec<_> = rows.filter(|(_, stages)| sum(stages) > 0.0).collect();
    let most_us = rows
        .iter()
        .map(|(_, stages)| sum(stages))
        .fold(0.0, f64::max);
    html! { @if !rows.is_empty() {
        p.caption { (level.label()) }
        div.scroll tabindex="0" { table.stages { tbody { @for (name, stages) in rows { tr {
            th scope="row" { (name) }
            td { (bar(stages, most_us)) }
            td."n strong" { (format::duration_us(sum(stages))) }
            td { @for stage in stages {
                span.stage title=(stage.derivation) {
                    i class={ "swatch " (slot(&stage.name)) } {}
                    (stage.name.replace('_', " ")) " "
                    (format::duration_us(stage.mean_us.max(0.0)))
                } " "
            } }
        } "\n" } } } }
    } }
}

fn bar(stages: &[StageMean], most_us: f64) -> Markup {
    let mut left = 0.0;
    html! {
        svg.interval xmlns="http://www.w3.org/2000/svg" width=(WIDTH) height="16"
            viewBox={ "0 0 " (WIDTH) " 16" } role="img" aria-label="stages" {
            @for stage in stages {
                @let width = stage.mean_us.max(0.0) / most_us * WIDTH;
                rect x=(format!("{left:.1}")) y="1" width=(format!("{width:.1}")) height="14"
                    class={ "bar " (slot(&stage.name)) } {}
                ({ left += width; "" })
            }
        }
    }
}

fn slot(stage: &str) -> &'static str {
    match stage {
        "schedule" => "a0",
        "publish" => "a5",
        "broker_to_consumer" | "broker_to_client" | "broker_to_gateway" => "a4",
        "gateway_to_client" => "a1",
        _ => "a6",
    }
}
