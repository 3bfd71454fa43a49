//! The answer of a run in which consumers drain a backlog.

use super::words::count;
use crate::run::{
    BACKLOG_DELIVERIES, BACKLOG_DRAIN_S, BACKLOG_DRAINED_PER_S, Cell, Repetitions, Run,
};

/// Returns how fast the most consumers drained their backlog; `None` if there was none.
pub(super) fn answer(run: &Run) -> Option<String> {
    let cells = run.cells.iter().filter(|cell| cell.repetition > 0);
    let points = Repetitions::group(cells);
    let drained = points
        .iter()
        .filter_map(|point| Some((point, figure(point, BACKLOG_DRAINED_PER_S)?)));
    let (point, per_s) = drained.max_by_key(|(point, _)| point.cells[0].clients)?;
    let (deliveries, drain_s) = (
        figure(point, BACKLOG_DELIVERIES)?,
        figure(point, BACKLOG_DRAIN_S)?,
    );
    Some(format!(
        "{} consumers drain a backlog of {} deliveries in {drain_s:.1} s, {} per second, while \
         producers write {} records/s.",
        count(point.cells[0].clients as f64),
        count(deliveries),
        count(per_s),
        count(point.cells[0].offered_records_per_s)
    ))
}

fn figure(point: &Repetitions<'_>, name: &str) -> Option<f64> {
    point.mean(|cell: &Cell| cell.figures.get(name).copied())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn most_consumers_with_a_backlog_are_named() {
        let cell = |clients, repetition, drain_s| Cell {
            architecture: "groups".to_owned(),
            clients,
            repetition,
            offered_records_per_s: 2000.0,
            figures: BTreeMap::from([
                (BACKLOG_DELIVERIES.to_owned(), 40_000.0),
                (BACKLOG_DRAIN_S.to_owned(), drain_s),
                (BACKLOG_DRAINED_PER_S.to_owned(), 40_000.0 / drain_s),
            ]),
            ..Cell::default()
        };
        let run = Run {
            cells: vec![cell(16, 1, 1.0), cell(32, 1, 2.0), cell(32, 2, 2.0)],
            ..Run::default()
        };
        let text = answer(&run).expect("a backlog");
        let expected = "32 consumers drain a backlog of 40,000 deliveries in 2.0 s, 20,000 per \
                        second, while producers write 2,000 records/s.";
        assert_eq!(text, expected);
        let none = Run {
            cells: vec![Cell::default()],
            ..Run::default()
        };
        assert_eq!(answer(&none), None);
    }
}
