//! Differences between two runs other than their metrics, for the reader of a comparison.

use std::collections::BTreeMap;

use crate::run::{CellStatus, ComparisonSubject, Run};

/// Returns one line for each difference that may invalidate a comparison.
pub(super) fn between(base: &Run, other: &Run) -> Vec<String> {
    let mut found = Vec::new();
    if base.plan != other.plan {
        found.push(format!("plans differ: {}, {}", base.plan, other.plan));
    }
    let pairs = pairs(base)
        .into_iter()
        .filter_map(|(name, value)| Some((pairs_of(other, &name)?, name, value)));
    let mut unequal: Vec<String> = pairs
        .filter(|(theirs, _, ours)| theirs != ours)
        .map(|(theirs, name, ours)| format!("{name}: {ours}, {theirs}"))
        .collect();
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
fn pairs(run: &Run) -> BTreeMap<String, String> {
    let machine = &run.machine;
    let fixed = [
        ("processor", machine.cpu_model.clone()),
        ("cores", machine.cpu_cores.to_string()),
        ("memory_bytes", machine.memory_bytes.to_string()),
        ("kernel", machine.kernel.clone()),
        ("operating system", machine.os.clone()),
    ];
    let fixed = fixed.map(|(name, value)| (name.to_owned(), value));
    let system = machine
        .settings
        .iter()
        .filter(|(name, _)| !is_momentary(name));
    let system = system.map(|(name, value)| (name.clone(), value.clone()));
    let versions = run.versions.iter();
    let versions = versions.map(|(name, value)| (format!("version of {name}"), value.clone()));
    let settings = run.settings.iter().flat_map(|group| {
        let named = |name: &str| format!("{}.{name}", group.part);
        let settings = group.settings.iter();
        settings.map(move |setting| (named(&setting.name), setting.value.clone()))
    });
    let all = fixed
        .into_iter()
        .chain(system)
        .chain(versions)
        .chain(settings);
    all.filter(|(name, _)| name != "topic.bootstrap.servers")
        .collect()
}

/// Returns `true` for values that change all the time. They are checked elsewhere.
fn is_momentary(name: &str) -> bool {
    name.starts_with("load_average")
}

fn pairs_of(run: &Run, name: &str) -> Option<String> {
    pairs(run).remove(name)
}

/// Returns subjects that only one side has.
fn one_sided(base: &Run, other: &Run) -> Vec<String> {
    let subjects = |run: &Run| {
        let mut subjects: Vec<ComparisonSubject> = Vec::new();
        for subject in run
            .cells
            .iter()
            .filter(|c| c.is_valid())
            .map(ComparisonSubject::of)
        {
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
        subjects
    };
    let (ours, theirs) = (subjects(base), subjects(other));
    let missing =
        |from: &[ComparisonSubject], to: &[ComparisonSubject], side: &str| -> Vec<String> {
            from.iter()
                .filter(|subject| !to.contains(subject))
                .map(|subject| format!("only {side} has a valid cell of {subject}"))
                .collect()
        };
    let mut found = missing(&ours, &theirs, "the base");
    found.append(&mut missing(&theirs, &ours, "the other side"));
    found
}

/// Returns `true` if wanted deliveries of plain consumers are counted separately.
fn counts_wanted(run: &Run) -> bool {
    let deliveries = run.cells.iter().filter_map(|cell| cell.delivery.as_ref());
    deliveries
        .into_iter()
        .any(|delivery| delivery.wanted.is_some())
}

/// Returns the numbers of invalid and of disturbed cells.
fn left_out(side: &str, run: &Run) -> Vec<String> {
    let invalid = |status: &CellStatus| matches!(status, CellStatus::Invalid { .. });
    let invalid = run
        .cells
        .iter()
        .filter(|cell| invalid(&cell.status))
        .count();
    let noisy = run.cells.iter().filter(|cell| cell.is_valid());
    let noisy = noisy.filter(|cell| !cell.noisy.is_empty()).count();
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
