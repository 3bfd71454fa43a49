//! Differences between two runs other than their metrics, for the reader of a comparison.

use std::collections::BTreeMap;

use super::subjects::of_cells;
use crate::run::{Cell, CellStatus, ComparisonSubject, Run};

/// Returns one line for each difference that may invalidate a comparison.
pub(super) fn between(base: &Run, other: &Run) -> Vec<String> {
    let mut found = Vec::new();
    if base.plan != other.plan {
        found.push(format!("plans differ: {}, {}", base.plan, other.plan));
    }
    let theirs = settings(other);
    let mut unequal = Vec::new();
    for (name, ours) in settings(base) {
        if let Some(theirs) = theirs.get(&name).filter(|theirs| **theirs != ours) {
            unequal.push(format!("{name}: {ours}, {theirs}"));
        }
    }
    let more = unequal.len().saturating_sub(LISTED_MAX);
    unequal.truncate(LISTED_MAX);
    found.append(&mut unequal);
    if more > 0 {
        found.push(format!("{more} more settings differ"));
    }
    found.extend(one_sided(base, other));
    if counts_wanted(base) != counts_wanted(other) {
        let text = "CPU per delivery: only one side separates wanted deliveries of plain \
                    consumers, so the values cannot be compared";
        found.push(text.to_owned());
    }
    for (side, run) in [("base", base), ("other side", other)] {
        found.extend(left_out(side, run));
    }
    found
}

/// Returns all settings by name, without those that identify a run.
fn settings(run: &Run) -> BTreeMap<String, String> {
    let machine = &run.machine;
    let fixed = [
        ("processor", machine.cpu_model.clone()),
        ("cores", machine.cpu_cores.to_string()),
        ("memory_bytes", machine.memory_bytes.to_string()),
        ("kernel", machine.kernel.clone()),
        ("operating system", machine.os.clone()),
    ];
    let fixed = fixed.map(|(name, value)| (name.to_owned(), value));
    // The load average changes all the time, and is checked elsewhere.
    let system = machine.settings.iter();
    let system = system.filter(|(name, _)| !name.starts_with("load_average"));
    let system = system.map(|(name, value)| (name.clone(), value.clone()));
    let versions = run.versions.iter();
    let versions = versions.map(|(name, value)| (format!("version of {name}"), value.clone()));
    let settings = run.settings.iter().flat_map(|group| {
        let named = |name: &str| format!("{}.{name}", group.part);
        let settings = group.settings.iter();
        settings.map(move |setting| (named(&setting.name), setting.value.clone()))
    });
    let all = fixed.into_iter().chain(system).chain(versions);
    let all = all.chain(settings);
    all.filter(|(name, _)| name != "topic.bootstrap.servers")
        .collect()
}

/// Returns subjects that only one side has.
fn one_sided(base: &Run, other: &Run) -> Vec<String> {
    let subjects = |run: &Run| -> Vec<ComparisonSubject> {
        let subjects = of_cells(run.cells.iter(), ComparisonSubject::of).into_iter();
        subjects.map(|(subject, _)| subject).collect()
    };
    let (ours, theirs) = (subjects(base), subjects(other));
    let sides = [
        (&ours, &theirs, "the base"),
        (&theirs, &ours, "the other side"),
    ];
    let missing = sides.into_iter().flat_map(|(from, to, side)| {
        let missing = from.iter().filter(|subject| !to.contains(subject));
        missing.map(move |subject| format!("only {side} has a valid cell of {subject}"))
    });
    missing.collect()
}

/// Returns `true` if wanted deliveries of plain consumers are counted separately.
fn counts_wanted(run: &Run) -> bool {
    let mut deliveries = run.cells.iter().filter_map(|cell| cell.delivery.as_ref());
    deliveries.any(|delivery| delivery.wanted.is_some())
}

/// Returns the numbers of invalid and of disturbed cells.
fn left_out(side: &str, run: &Run) -> Vec<String> {
    let invalid = |cell: &&Cell| matches!(cell.status, CellStatus::Invalid { .. });
    let invalid = run.cells.iter().filter(invalid).count();
    let noisy = |cell: &&Cell| cell.is_valid() && !cell.noisy.is_empty();
    let noisy = run.cells.iter().filter(noisy).count();
    let mut found = Vec::new();
    if invalid > 0 {
        found.push(format!("{side}: {invalid} invalid cells were excluded"));
    }
    if noisy > 0 {
        found.push(format!("{side}: {noisy} cells have noisy seconds"));
    }
    found
}

const LISTED_MAX: usize = 12;
