//! The values of a run by subject and metric.

use std::collections::BTreeMap;

use super::libraries;
use crate::metric;
use crate::run::{Cell, ComparisonSubject, Run};

/// The values of one subject by metric, one per repetition that has the metric.
pub(super) type Values = BTreeMap<String, Vec<f64>>;

/// The values of all valid repetitions by subject, in the order in which subjects first ran.
pub(super) type Repetitions = Vec<(ComparisonSubject, Values)>;

/// Returns the values of all cells and libraries of a run.
pub(super) fn repetitions(run: &Run) -> Repetitions {
    let mut by_subject = of_cells(run.cells.iter(), ComparisonSubject::of);
    for (subject, values) in run.libraries.iter().flat_map(libraries::repetitions) {
        add(&mut by_subject, subject, values);
    }
    by_subject
}

/// Returns the values of the valid cells; `subject` returns the subject of a cell.
pub(super) fn of_cells<'a>(
    cells: impl Iterator<Item = &'a Cell>,
    subject: impl Fn(&Cell) -> ComparisonSubject,
) -> Repetitions {
    let mut by_subject = Repetitions::new();
    for cell in cells.filter(|cell| cell.is_valid()) {
        add(&mut by_subject, subject(cell), metric::all_of(cell));
    }
    by_subject
}

fn add<'a>(
    by_subject: &mut Repetitions,
    subject: ComparisonSubject,
    found: impl IntoIterator<Item = (&'a str, f64)>,
) {
    let index = by_subject.iter().position(|(seen, _)| *seen == subject);
    let index = index.unwrap_or_else(|| {
        by_subject.push((subject, Values::new()));
        by_subject.len() - 1
    });
    for (name, value) in found {
        let values = by_subject[index].1.entry(name.to_owned()).or_default();
        values.push(value);
    }
}
