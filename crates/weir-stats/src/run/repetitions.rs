//! All repetitions of one measurement, and their common results.
//!
//! A cell is one repetition. Its subject is the architecture or variant under test; its load point
//! is the number of clients and the rate.

use super::{Cell, ComparisonSubject};
use crate::interval;

/// The cells of one subject at one load point, valid or not.
///
/// Tables, verdicts, thresholds and charts take their values from here, so that they agree. No
/// result depends on the order of the repetitions.
#[derive(Debug, Clone)]
pub struct Repetitions<'a> {
    /// Cells in the order in which they ran.
    pub cells: Vec<&'a Cell>,
}

impl<'a> Repetitions<'a> {
    /// Groups cells by subject and load point, in the order in which these first ran.
    pub fn group(cells: impl IntoIterator<Item = &'a Cell>) -> Vec<Self> {
        let mut groups: Vec<(ComparisonSubject, Self)> = Vec::new();
        for cell in cells {
            let subject = ComparisonSubject::of(cell);
            match groups.iter_mut().find(|(seen, _)| *seen == subject) {
                Some((_, group)) => group.cells.push(cell),
                None => groups.push((subject, Self { cells: vec![cell] })),
            }
        }
        groups.into_iter().map(|(_, group)| group).collect()
    }

    /// Returns the valid cells.
    pub fn valid(&self) -> impl Iterator<Item = &'a Cell> + '_ {
        self.cells.iter().copied().filter(|cell| cell.is_valid())
    }

    /// Returns the geometric mean of a value of the valid repetitions
    /// ([`interval::repetition_mean`]).
    pub fn mean(&self, pick: impl Fn(&Cell) -> Option<f64>) -> Option<f64> {
        let values: Vec<f64> = self.valid().filter_map(pick).collect();
        interval::repetition_mean(&values)
    }

    /// Returns `true` if there is a valid repetition and all of them sustained the load.
    pub fn is_sustained(&self) -> bool {
        self.valid().next().is_some() && self.worst_not_sustained().is_none()
    }

    /// Returns the valid repetition with the highest mean response time of those that did not
    /// sustain the load.
    pub fn worst_not_sustained(&self) -> Option<&'a Cell> {
        let failed = self.valid().filter(|cell| cell.not_sustained.is_some());
        failed.max_by(|a, b| {
            let response = response_mean_us(a).total_cmp(&response_mean_us(b));
            response.then_with(|| a.not_sustained.cmp(&b.not_sustained))
        })
    }

    /// Returns the valid repetition that represents all in charts: the one whose mean response time
    /// is nearest to the mean of all.
    pub fn representative(&self) -> Option<&'a Cell> {
        let mean = self.mean(|cell| cell.response()?.mean_us).unwrap_or(0.0);
        let distance = |cell: &Cell| (response_mean_us(cell) - mean).abs();
        self.valid().min_by(|a, b| {
            let nearer = distance(a).total_cmp(&distance(b));
            nearer.then_with(|| response_mean_us(a).total_cmp(&response_mean_us(b)))
        })
    }
}

fn response_mean_us(cell: &Cell) -> f64 {
    let response = cell.response();
    response
        .and_then(|response| response.mean_us)
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::run::{CellStatus, LatencySummary, STAGE_RESPONSE};

    fn cell(clients: u64, mean_us: f64, not_sustained: Option<&str>) -> Cell {
        let summary = LatencySummary {
            mean_us: Some(mean_us),
            ..LatencySummary::default()
        };
        Cell {
            architecture: "gateway".to_owned(),
            clients,
            latency: BTreeMap::from([(STAGE_RESPONSE.to_owned(), summary)]),
            not_sustained: not_sustained.map(str::to_owned),
            ..Cell::default()
        }
    }

    #[test]
    fn one_failed_repetition_means_not_sustained() {
        let cells = [
            cell(10, 100.0, None),
            cell(20, 400.0, None),
            cell(10, 900.0, Some("late")),
            cell(10, 300.0, None),
        ];
        let groups = Repetitions::group(&cells);
        let clients: Vec<u64> = groups.iter().map(|it| it.cells[0].clients).collect();
        assert_eq!(clients, [10, 20]);
        assert!(!groups[0].is_sustained() && groups[1].is_sustained());
        assert_eq!(groups[0].worst_not_sustained(), Some(&cells[2]));
        assert_eq!(
            groups[0].representative(),
            Some(&cells[3]),
            "geometric mean: 300"
        );
        let mean = groups[0].mean(|cell| cell.response()?.mean_us).unwrap();
        assert!((mean - 300.0).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn invalid_repetitions_do_not_count() {
        let mut invalid = cell(10, 900.0, Some("late"));
        invalid.status = CellStatus::Invalid {
            reasons: Vec::new(),
        };
        let only = [invalid.clone()];
        assert!(!Repetitions::group(&only)[0].is_sustained());
        let both = [invalid, cell(10, 100.0, None)];
        let group = &Repetitions::group(&both)[0];
        assert!(group.is_sustained());
        assert_eq!(group.representative(), Some(&both[1]));
        assert_eq!(group.mean(|cell| cell.response()?.mean_us), Some(100.0));
    }
}
