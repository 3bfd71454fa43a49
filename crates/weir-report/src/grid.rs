//! Grids of clients by rate: the result of every point.

use std::collections::BTreeSet;

use crate::format::TimeUnit;
use crate::view::{Level, RowStatus, SubjectRow};

/// Parameter of the second dimension, next to the number of clients.
const RATE: &str = "rate_per_s";

/// The grid of one subject.
pub(crate) struct RateGrid {
    pub(crate) unit: TimeUnit,
    pub(crate) rates: Vec<f64>,
    /// Number of clients, with the point of each rate, `None` if there is none.
    pub(crate) rows: Vec<(u64, Vec<Option<GridPoint>>)>,
}

/// One grid point.
pub(crate) struct GridPoint {
    /// `None` if the point was not run or is invalid.
    pub(crate) is_sustained: Option<bool>,
    /// Mean and standard deviation, or the status of a point without results.
    pub(crate) text: String,
    /// Reason why the point is not sustained or has no results.
    pub(crate) reason: String,
}

/// Returns the grid; `None` unless there are at least two numbers of clients and two rates.
pub(crate) fn rate_grid(name: &str, levels: &[Level<'_>]) -> Option<RateGrid> {
    let points = || {
        levels.iter().flat_map(|level| {
            let rows = level.rows.iter().filter(|row| row.name == name);
            rows.filter_map(move |row| Some((level.clients, *level.parameters.get(RATE)?, row)))
        })
    };
    let clients: BTreeSet<u64> = points().map(|(clients, ..)| clients).collect();
    let mut rates: Vec<f64> = points().map(|(_, rate, _)| rate).collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    if clients.len() < 2 || rates.len() < 2 {
        return None;
    }
    let unit = TimeUnit::for_values_us(points().filter_map(|(_, _, row)| row.figures.mean_us));
    let row = |clients: u64| {
        let at = |rate: &f64| {
            let mut points = points();
            let (.., row) = points.find(|(c, r, _)| *c == clients && r == rate)?;
            Some(point(row, unit))
        };
        (clients, rates.iter().map(at).collect())
    };
    Some(RateGrid {
        rows: clients.into_iter().map(row).collect(),
        unit,
        rates,
    })
}

fn point(row: &SubjectRow<'_>, unit: TimeUnit) -> GridPoint {
    let (is_sustained, text, reason) = match &row.state {
        RowStatus::Skipped(reason) => (None, "not run".to_owned(), reason.clone()),
        RowStatus::Invalid(reasons) => (None, "invalid".to_owned(), reasons.join("; ")),
        RowStatus::Valid => {
            let [mean, sd] = [row.figures.mean_us, row.figures.stddev_us].map(|us| unit.show(us));
            let limit = row.limit();
            let text = format!("{mean} ({sd})");
            (Some(limit.is_none()), text, limit.unwrap_or_default())
        }
    };
    GridPoint {
        is_sustained,
        text,
        reason,
    }
}
