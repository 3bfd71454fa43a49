//! The answer of a run: one sentence that names the better subject, the difference and the load.
//!
//! Every report format begins with this sentence. It is computed from the same means as the tables.

mod backlog;
mod clients;
mod headline;
mod noise;
mod proxy;
mod search;
mod words;

use crate::libraries;
use crate::run::{Cell, FindMax, FindMaxOutcome, Run, RunOutcome};
pub use clients::AnswerBasis;
pub use headline::Headline;
pub use noise::{noise, noise_floor};
use words::count;

/// Returns the answer of a run.
pub fn answer(run: &Run) -> String {
    let found = match (&run.find_max, &run.libraries) {
        (Some(search), _) => noise::answer(run).or_else(|| Some(search::answer(search, run))),
        _ if run.outcome == RunOutcome::Invalid => None,
        (None, Some(compared)) => Some(libraries::answer(compared)),
        (None, None) => noise::answer(run)
            .or_else(|| proxy::answer(run))
            .or_else(|| sweep(run))
            .or_else(|| backlog::answer(run))
            .or_else(|| clients::answer(run)),
    };
    found.unwrap_or_else(|| "No cell has a valid result.".to_owned())
}

/// Returns a cell at the load to which the answer refers; `None` if the answer is not about
/// architectures.
pub fn load_point(run: &Run) -> Option<&Cell> {
    clients::load_point(run)
}

/// Returns the quantity by which the answer compares the subjects.
pub fn basis(run: &Run) -> AnswerBasis {
    clients::basis(run)
}

/// Returns the main number of a run's answer; `None` for a comparison of client libraries, which
/// has several.
pub fn headline(run: &Run) -> Option<Headline> {
    match &run.find_max {
        _ if run.outcome == RunOutcome::Invalid => None,
        Some(FindMax {
            outcome: FindMaxOutcome::Found { value, .. },
            variable,
            architecture,
            ..
        }) => Some(Headline {
            name: format!("{architecture}, maximum {variable}"),
            value: *value,
        }),
        Some(_) => None,
        None => proxy::headline(run).or_else(|| clients::headline(run)),
    }
}

/// Returns the knee of the largest record size of a broker sweep.
fn sweep(run: &Run) -> Option<String> {
    let size = |name: &str| -> Option<f64> { name.split(' ').nth(1)?.parse().ok() };
    let knees = run.derived.iter().filter(|it| it.name.starts_with("knee"));
    let by_size = knees.filter_map(|knee| Some((size(&knee.of)?, knee)));
    let (size, knee) = by_size.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let records = format!("records of {} bytes", count(size));
    Some(match (knee.value, knee.name.as_str()) {
        (Some(rate), "knee") => format!(
            "With {records} the broker keeps its latency up to {} records/s.",
            count(rate)
        ),
        (Some(rate), _) => format!(
            "With {records} the broker keeps its latency up to {} records/s, the highest rate \
             tested.",
            count(rate)
        ),
        (None, _) => format!("With {records} the latency rises from the lowest rate on."),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Derived, DerivedFrom};

    #[test]
    fn sweeps_are_answered_by_the_largest_size() {
        let knee = |name: &str, size: u64, value: Option<f64>| Derived {
            name: name.to_owned(),
            of: format!("producer {size} bytes"),
            value,
            unit: "records/s".to_owned(),
            basis: DerivedFrom::Measured,
            derivation: String::new(),
        };
        let of = |derived| {
            answer(&Run {
                derived,
                ..Run::default()
            })
        };
        assert_eq!(
            of(vec![
                knee("knee", 100, Some(9e4)),
                knee("knee", 1000, Some(5e4))
            ]),
            "With records of 1,000 bytes the broker keeps its latency up to 50,000 records/s."
        );
        assert!(of(vec![knee("knee above", 10, Some(1e3))]).ends_with("the highest rate tested."));
        assert!(of(vec![knee("knee", 10, None)]).ends_with("from the lowest rate on."));
        assert_eq!(of(Vec::new()), "No cell has a valid result.");
    }
}
