//! Order of the subjects in each repetition of a run, and the log of the cells.

use weir_stats::run::{Cell, CellStatus};

use super::RunContext;
use crate::{BenchError, Observer};

/// Returns the order of `subjects` in repetition `index` (from 0). Each comes first in turn and
/// every other repetition is reversed, so that none is always first or always after the same one.
/// Two subjects alternate as A B, B A, B A, A B.
pub(crate) fn order<T: Clone>(subjects: &[T], index: usize) -> Vec<T> {
    let mut order = subjects.to_vec();
    if order.is_empty() {
        return order;
    }
    if index % 2 == 1 {
        order.reverse();
    }
    // Half the index: with two subjects, rotating in every repetition would cancel the reversal.
    let turn = (index / 2) % order.len();
    order.rotate_left(turn);
    order
}

/// Reason for a cell without results.
#[derive(Debug)]
pub(crate) enum CellFailure {
    /// The user interrupted the run before the cell had results.
    Interrupted,
    /// The cell failed; the run continues with the other cells.
    Failed(Vec<String>),
}

pub(crate) type CellResult<T = ()> = Result<T, CellFailure>;

impl CellFailure {
    pub(crate) fn because(reason: impl Into<String>) -> Self {
        Self::Failed(vec![reason.into()])
    }

    pub(crate) fn and(mut self, errors: &mut Vec<String>) -> Self {
        if let Self::Failed(reasons) = &mut self {
            reasons.append(errors);
        }
        self
    }

    pub(crate) fn status(self) -> CellStatus {
        match self {
            Self::Interrupted => CellStatus::Skipped {
                reason: "interrupted before its measured window".to_owned(),
            },
            Self::Failed(reasons) => CellStatus::Invalid { reasons },
        }
    }
}

impl<E: Into<BenchError>> From<E> for CellFailure {
    fn from(error: E) -> Self {
        Self::because(error.into().to_string())
    }
}

/// The cells of a run, in the order in which they are measured.
pub(crate) struct CellLog<'a> {
    context: RunContext<'a>,
    pub(crate) observer: &'a mut dyn Observer,
    /// Returns one line about a completed cell.
    line: fn(&Cell) -> String,
    count: usize,
    pub(crate) cells: Vec<Cell>,
}

impl<'a> CellLog<'a> {
    pub(crate) fn new(
        context: RunContext<'a>,
        observer: &'a mut dyn Observer,
        line: fn(&Cell) -> String,
        count: usize,
    ) -> Self {
        Self {
            context,
            observer,
            line,
            count,
            cells: Vec::new(),
        }
    }

    /// Measures a cell, unless the run has ended or `skip` returns a reason, and reports it.
    pub(crate) fn turn(
        &mut self,
        mut cell: Cell,
        skip: impl FnOnce() -> Option<String>,
        measure: impl FnOnce(&mut Cell, &mut dyn Observer) -> CellResult,
    ) -> &Cell {
        let number = self.cells.len() + 1;
        let count = self.count.max(number);
        self.observer.cell(number, count, &cell.id());
        match self.end_reason().or_else(skip) {
            Some(reason) => cell.status = CellStatus::Skipped { reason },
            None => {
                cell.started_s = Some(self.context.run_dir.elapsed_s());
                if let Err(failure) = measure(&mut cell, self.observer) {
                    cell.status = failure.status();
                }
            }
        }
        self.observer.note(&(self.line)(&cell));
        self.cells.push(cell);
        &self.cells[number - 1]
    }

    /// Returns the reason why no further cell can be measured.
    pub(crate) fn end_reason(&self) -> Option<String> {
        match () {
            () if self.context.run_dir.is_stopped() => Some("interrupted".to_owned()),
            () if self.context.broker.has_exited() => Some(BROKER_EXITED.to_owned()),
            () => self.context.run_dir.lost_machine(),
        }
    }
}

/// Reason for skipping all further cells.
pub(crate) const BROKER_EXITED: &str = "the broker of this run has exited";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_subjects_alternate() {
        let orders: Vec<String> = (0..6)
            .map(|index| order(&["A", "B"], index).concat())
            .collect();
        assert_eq!(orders, ["AB", "BA", "BA", "AB", "AB", "BA"]);
        assert!(order::<u8>(&[], 3).is_empty());
    }

    #[test]
    fn every_subject_gets_every_position_equally_often() {
        for count in 1..=5_usize {
            let subjects: Vec<usize> = (0..count).collect();
            let mut positions = vec![vec![0; count]; count];
            for index in 0..2 * count {
                for (position, subject) in order(&subjects, index).into_iter().enumerate() {
                    positions[subject][position] += 1;
                }
            }
            assert!(
                positions.iter().flatten().all(|times| *times == 2),
                "{positions:?}"
            );
        }
    }
}
