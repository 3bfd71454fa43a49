//! The sentence with the result of a search for the maximum sustained load.

use super::words::count;
use crate::run::{Cell, FindMax, FindMaxOutcome, Run};

/// Returns the load found and the lowest one that was not sustained: `The gateway sustains 12,000
/// clients at 100 records/s, but not 12,600 clients.`
pub(super) fn answer(search: &FindMax, run: &Run) -> String {
    let subject = match search.architecture.as_str() {
        "gateway" => "The gateway sustains",
        "floor" => "The floor sustains",
        "standalone" => "Stand-alone consumers sustain",
        "groups" => "Consumer groups sustain",
        other => return format!("{other}: {}", search.summary),
    };
    match &search.outcome {
        FindMaxOutcome::Found {
            value,
            first_not_sustained,
            saturated_role,
            ..
        } => {
            let limit = saturated_role.as_ref();
            let limit = limit.map_or_else(String::new, |role| format!(" (limit: {role})"));
            format!(
                "{subject} {}, but not {}{limit}.",
                load(search, run, *value),
                quantity(search, *first_not_sustained)
            )
        }
        FindMaxOutcome::AtLeast { value, reason } => {
            format!(
                "{subject} at least {}: {reason}.",
                load(search, run, *value)
            )
        }
        FindMaxOutcome::Inconclusive { .. } => search.summary.clone(),
    }
}

/// Returns the load with the quantity that did not vary: `12,000 clients at 100 records/s`.
fn load(search: &FindMax, run: &Run, value: f64) -> String {
    let varied = quantity(search, value);
    let Some(cell) = cell_at(search, run, value) else {
        return varied;
    };
    match search.variable.as_str() {
        CLIENTS => format!(
            "{varied} at {} records/s",
            count(cell.offered_records_per_s)
        ),
        _ => match cell.clients {
            1 => format!("{varied} with 1 client"),
            more => format!("{varied} with {} clients", count(more as f64)),
        },
    }
}

/// Returns a value of the quantity that the search varied, with its unit: `12,000 clients`.
pub(super) fn quantity(search: &FindMax, value: f64) -> String {
    let unit = match search.variable.as_str() {
        CLIENTS => "clients",
        _ => "records/s",
    };
    format!("{} {unit}", count(value))
}

/// Returns the cell in which this load was last measured.
fn cell_at<'a>(search: &FindMax, run: &'a Run, value: f64) -> Option<&'a Cell> {
    let mut steps = search.steps.iter().rev();
    let step = steps.find(|step| step.value == value)?;
    run.cells.iter().find(|cell| cell.id() == step.cell)
}

const CLIENTS: &str = "clients";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::FindMaxStep;

    fn of(variable: &str, outcome: FindMaxOutcome) -> String {
        let cell = Cell {
            architecture: "gateway".to_owned(),
            clients: 500,
            repetition: 1,
            offered_records_per_s: 100.0,
            ..Cell::default()
        };
        let search = FindMax {
            variable: variable.to_owned(),
            architecture: "gateway".to_owned(),
            steps: vec![FindMaxStep {
                value: 12_000.0,
                cell: cell.id(),
                ..FindMaxStep::default()
            }],
            outcome,
            summary: "No maximum load of gateway was found: late.".to_owned(),
            again: None,
        };
        let run = Run {
            cells: vec![cell],
            ..Run::default()
        };
        answer(&search, &run)
    }

    #[test]
    fn answer_names_load_found() {
        let found = || FindMaxOutcome::Found {
            value: 12_000.0,
            first_not_sustained: 12_600.0,
            saturated_role: Some("broker".to_owned()),
            saturation_reason: None,
        };
        assert_eq!(
            of("clients", found()),
            "The gateway sustains 12,000 clients at 100 records/s, but not 12,600 clients (limit: \
             broker)."
        );
        assert_eq!(
            of("rate_per_s", found()),
            "The gateway sustains 12,000 records/s with 500 clients, but not 12,600 records/s \
             (limit: broker)."
        );
        let at_least = FindMaxOutcome::AtLeast {
            value: 12_000.0,
            reason: "the clients are the limit".to_owned(),
        };
        assert_eq!(
            of("clients", at_least),
            "The gateway sustains at least 12,000 clients at 100 records/s: the clients are the \
             limit."
        );
        let none = FindMaxOutcome::Inconclusive {
            reason: String::new(),
        };
        assert!(of("clients", none).starts_with("No maximum load"));
    }
}
