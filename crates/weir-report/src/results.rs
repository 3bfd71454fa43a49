//! The main comparison, for all formats: a row per level and subject.

use weir_stats::run::Run;

use crate::chart::slot;
use crate::columns::Column;
use crate::format::TimeUnit;
use crate::table::{Field, ReportTable};
use crate::view::{self, Level, RowStatus, SubjectRow};
use crate::{overhead, sweep_table};

/// Returns the tables of runs whose results are no levels of clients: sweeps and proxy overhead.
pub(crate) fn special_tables(run: &Run) -> Vec<(String, ReportTable)> {
    let sweeps = sweep_table::tables(run).into_iter();
    let sweeps = sweeps.map(|(title, table)| (title.to_owned(), table));
    sweeps.chain(overhead::tables(run)).collect()
}

/// Returns the results of all levels, as a block each. The first column has the text `at` of the
/// level, the second one the subject.
pub(crate) fn table(
    run: &Run,
    levels: &[Level<'_>],
    columns: &[&Column],
    heading: impl Fn(&Column) -> String,
    at: impl Fn(&Level<'_>) -> String,
) -> ReportTable {
    let unit = view::median_unit(levels);
    let headings = ["clients", "architecture"].map(str::to_owned).into_iter();
    let headings = headings.chain(columns.iter().map(|column| heading(column)));
    let mut table = ReportTable::new(2, headings).grouped();
    for level in levels {
        for row in &level.rows {
            let mut fields = vec![at(level).into(), name(run, row)];
            let class = match &row.state {
                RowStatus::Skipped(reason) => {
                    fields.push(format!("skipped: {reason}").into());
                    "skipped"
                }
                RowStatus::Invalid(reasons) => {
                    let text = format!("invalid: {}", reasons.join("; "));
                    fields.push(Field::with("bad", text));
                    "invalid"
                }
                RowStatus::Valid => {
                    fields.extend(columns.iter().map(|column| value(row, column, unit)));
                    ""
                }
            };
            table.row(class, fields);
        }
    }
    table
}

fn name(run: &Run, row: &SubjectRow<'_>) -> Field {
    let badge = match row.state {
        RowStatus::Valid => row.limit().map(|_| ("warn", "not sustained")),
        RowStatus::Invalid(_) => Some(("bad", "invalid")),
        RowStatus::Skipped(_) => Some(("", "skipped")),
    };
    Field {
        swatch: Some(slot(run, &row.name)),
        badge,
        ..Field::from(&row.name)
    }
}

fn value(row: &SubjectRow<'_>, column: &Column, unit: TimeUnit) -> Field {
    let text = (column.show)(row, unit);
    let class = match column.name {
        "p99" | "own" => "key",
        _ if column.is_fault(&text) => "bad",
        _ => "",
    };
    let bounds = row.cpu_ratio.and_then(|ratio| ratio.bounds);
    let bounds = bounds.filter(|_| column.is_cpu_ratio() && !row.is_floor());
    Field {
        more: bounds
            .map(|(low, high)| format!("{low:.2} to {high:.2}"))
            .into_iter()
            .collect(),
        ..Field::with(class, text)
    }
}

/// Returns a text about each row that has one, after the row's name and level.
pub(crate) fn remarks(
    levels: &[Level<'_>],
    text: fn(&SubjectRow<'_>) -> Option<String>,
) -> Vec<(String, String)> {
    let rows = levels
        .iter()
        .flat_map(|level| level.rows.iter().map(move |row| (level, row)));
    let remark = |(level, row): (&Level<'_>, &SubjectRow<'_>)| {
        Some((format!("{} at {}", row.name, level.label()), text(row)?))
    };
    rows.filter_map(remark).collect()
}
