//! The style sheet, and the CSS classes that give subjects, stages and roles their colours.
//!
//! A slot is such a class: `a0` to `a6` are colours, `r1` to `r3` are dashes.

use weir_stats::run::Run;

use crate::{overlay, view};

/// Style rules shared by the page and stand-alone charts.
pub(crate) const CSS: &str = include_str!("chart.css");

/// Returns the slot of a subject: a fixed one for the architectures of Weir's plans, otherwise the
/// next free one.
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
    // At most four are taken, so that some are free.
    let free = OTHERS.into_iter().filter(|slot| !taken.contains(slot));
    let mut unknown = names.iter().filter(|name| known_slot(name).is_none());
    let place = unknown.position(|name| name == subject).unwrap_or(0);
    free.cycle().nth(place).unwrap_or("a4")
}

/// Returns the slot of a subject of an overlay: colour by architecture, dash by run.
fn overlaid(subject: &str) -> &'static str {
    const SLOTS: [[&str; 4]; 5] = [
        ["a0", "a0 r1", "a0 r2", "a0 r3"],
        ["a1", "a1 r1", "a1 r2", "a1 r3"],
        ["a2", "a2 r1", "a2 r2", "a2 r3"],
        ["a3", "a3 r1", "a3 r2", "a3 r3"],
        ["a4", "a4 r1", "a4 r2", "a4 r3"],
    ];
    let architecture = subject.split(' ').next().unwrap_or_default();
    let color = known_slot(architecture).unwrap_or("a4");
    let strokes = SLOTS.iter().find(|strokes| strokes[0] == color);
    strokes.unwrap_or(&SLOTS[4])[overlay::place(subject).unwrap_or(0) % 4]
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

/// Returns the entries of a legend: names with their slots.
pub(crate) fn entries<'a>(names: &'a [String], run: &Run) -> Vec<(&'a str, &'static str)> {
    names
        .iter()
        .map(|name| (name.as_str(), slot(run, name)))
        .collect()
}

/// Returns the slot of a stage of the latency.
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

/// Returns the slot of a process role.
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
