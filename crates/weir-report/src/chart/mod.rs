//! Static SVG charts, each drawn once for screen, print and both colour schemes.
//!
//! Colours come from `chart.css` by class: one slot per architecture, the same in every table and chart.

mod axis;
mod boxes;
pub(crate) mod clients;
mod curve;
mod diagram;
mod distribution;
mod fairness;
mod heat;
mod levels;
mod lines;
mod percentile;
mod plot;
mod series;
mod svg;
pub(crate) mod sweep;

use weir_stats::run::Run;

use crate::{overlay, view};

pub(crate) use boxes::{BoxOf, boxes};
pub(crate) use curve::curve;
pub(crate) use diagram::diagram;
pub(crate) use distribution::{DistributionLine, distribution};
pub(crate) use fairness::fairness;
pub(crate) use heat::heat_map;
pub(crate) use levels::{cpu, latency, memory, throughput};
pub(crate) use percentile::{Curve, percentiles, stages};
pub(crate) use series::{SeriesQuantity, over_time};

/// Rules that every chart needs, for the page and for stand-alone files.
pub(crate) const CSS: &str = include_str!("chart.css");

/// A chart as a file of its own, for Markdown.
pub(crate) struct ChartFile {
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) svg: String,
}

/// The charts of the page that stand in Markdown too.
pub(crate) fn pictures(run: &Run) -> Vec<ChartFile> {
    let levels = view::levels(run);
    let mut pictures = Vec::new();
    let mut add = |file: &str, title: &str, svg: Option<String>| {
        pictures.extend(svg.map(|svg| ChartFile {
            file: file.to_owned(),
            title: title.to_owned(),
            svg: svg::standalone(&svg, plot::WIDTH, plot::HEIGHT),
        }));
    };
    // Points of a grid differ in more than the number of clients.
    if !view::is_grid(run) {
        add(
            "latency.svg",
            "Latency by number of clients",
            Some(latency(run)),
        );
        add(
            "throughput.svg",
            "Deliveries by number of clients",
            Some(throughput(run)),
        );
        add(
            "cpu.svg",
            "Processor time per delivery by number of clients",
            Some(cpu(run)),
        );
        add("memory.svg", "Memory per client", memory(run));
    }
    add("curve.svg", "Latency over throughput", curve(run, &levels));
    for (name, cells) in sweep::by_subject(run) {
        for chart in sweep::sweeps(&cells) {
            let title = format!("{name}: {}", chart.title);
            add(
                &format!("{}.svg", file_part(&title)),
                &title,
                Some(chart.svg),
            );
        }
    }
    pictures
}

/// Letters and digits of a title.
fn file_part(title: &str) -> String {
    let words = title.split(|c: char| !c.is_ascii_alphanumeric());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join("-").to_lowercase().chars().take(80).collect()
}

/// Class that gives a subject its colour and dash everywhere.
pub(crate) fn slot(run: &Run, subject: &str) -> &'static str {
    const OTHERS: [&str; 6] = ["a1", "a2", "a4", "a5", "a3", "a6"];
    if run.plan == overlay::PLAN {
        return overlaid(subject);
    }
    if let Some(slot) = known_slot(subject) {
        return slot;
    }
    let names = view::subjects(run);
    let taken: Vec<&str> = names.iter().filter_map(|name| known_slot(name)).collect();
    // Four are taken at most, so that some are free.
    let free = OTHERS.into_iter().filter(|slot| !taken.contains(slot));
    let mut unknown = names.iter().filter(|name| known_slot(name).is_none());
    let place = unknown.position(|name| name == subject).unwrap_or(0);
    free.cycle().nth(place).unwrap_or("a4")
}

/// In an overlay the colour is that of the architecture, and the run shows in the stroke.
fn overlaid(subject: &str) -> &'static str {
    const SLOTS: [[&str; 4]; 5] = [
        ["a0", "a0 r1", "a0 r2", "a0 r3"],
        ["a1", "a1 r1", "a1 r2", "a1 r3"],
        ["a2", "a2 r1", "a2 r2", "a2 r3"],
        ["a3", "a3 r1", "a3 r2", "a3 r3"],
        ["a4", "a4 r1", "a4 r2", "a4 r3"],
    ];
    let architecture = subject.split(' ').next().unwrap_or_default();
    let colors = ["a0", "a1", "a2", "a3"];
    let color = known_slot(architecture)
        .and_then(|slot| colors.iter().position(|one| *one == slot))
        .unwrap_or(4);
    SLOTS[color][overlay::place(subject).unwrap_or(0) % 4]
}

fn known_slot(subject: &str) -> Option<&'static str> {
    match subject {
        "floor" => Some("a0"),
        "gateway" => Some("a1"),
        "standalone" => Some("a2"),
        "groups" => Some("a3"),
        _ => None,
    }
}

/// Legend entries of subjects.
fn entries<'a>(names: &'a [String], run: &Run) -> Vec<(&'a str, &'static str)> {
    names
        .iter()
        .map(|name| (name.as_str(), slot(run, name)))
        .collect()
}

/// Class that gives a stage its colour.
pub(crate) fn stage_slot(stage: &str) -> &'static str {
    match stage {
        "response" => "a1",
        "service" => "a2",
        "schedule_lag" => "a0",
        "publish_ack" => "a3",
        "acknowledged" => "a5",
        "stored_to_client" => "a4",
        _ => "a6",
    }
}

/// Class that gives a part its colour.
pub(crate) fn role_slot(role: &str) -> &'static str {
    match role {
        "gateway" | "proxy" => "a1",
        "consume" => "a2",
        "clients" => "a3",
        "broker" => "a4",
        "produce" => "a5",
        "floor" => "a0",
        _ => "a6",
    }
}
