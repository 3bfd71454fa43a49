//! Grids of clients by rate: the result of every point.

use std::collections::BTreeSet;

use crate::format::{self, TimeUnit};
use crate::table::{Field, ReportTable};
use crate::view::{Level, RowStatus, SubjectRow};

const RATE: &str = "rate_per_s";

/// Returns the grid of one subject, with mean and standard deviation in the unit; `None` unless
/// there are at least two numbers of clients and two rates.
pub(crate) fn rate_grid(name: &str, levels: &[Level<'_>]) -> Option<(TimeUnit, ReportTable)> {
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
    let corner = "clients \\ records/s".to_owned();
    let headings = rates.iter().map(|rate| format::figure(Some(*rate)));
    let mut table = ReportTable::new(1, [corner].into_iter().chain(headings));
    for clients in clients {
        let field = |rate: &f64| {
            let mut points = points();
            let found = points.find(|(c, r, _)| *c == clients && r == rate);
            found.map_or_else(|| Field::with("none", ""), |(.., row)| point(row, unit))
        };
        let start = [Field::from(format::count(clients))].into_iter();
        table.row("", start.chain(rates.iter().map(field)));
    }
    Some((unit, table))
}

fn point(row: &SubjectRow<'_>, unit: TimeUnit) -> Field {
    let [mean, sd] = [row.figures.mean_us, row.figures.stddev_us].map(|us| unit.show(us));
    match &row.state {
        RowStatus::Skipped(_) => Field::with("none", "not run"),
        RowStatus::Invalid(_) => Field::with("none", "invalid"),
        RowStatus::Valid if row.limit().is_some() => {
            Field::with("fail", format!("✗ {mean} ({sd})"))
        }
        RowStatus::Valid => Field::with("pass", format!("✓ {mean} ({sd})")),
    }
}
