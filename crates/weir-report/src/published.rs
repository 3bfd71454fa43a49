//! Published results next to those of this run, the same in all formats.

use std::collections::{BTreeMap, BTreeSet};

use weir_stats::run::{ReferenceRow, Run};

use crate::format::{count, figure, maybe_count, number};
use crate::table::ReportTable;
use crate::view::{self, Level, SubjectRow};

/// Caption of the table of a grid.
pub(crate) const CAPTION: &str = "Latency: mean in ms and standard deviation. CPU: share of the \
                                  server’s machine. Empty: not published, or not run here.";

/// Returns the table of short reports: of a grid with a row per point, else with a row per
/// published result.
pub(crate) fn table(run: &Run, levels: &[Level<'_>]) -> ReportTable {
    match view::is_grid(run) {
        true => points(run, levels),
        false => rows(run, levels),
    }
}

/// Returns the table of the page: of a grid with a row per point, else with a row per number of
/// clients and a group of columns per series.
pub(crate) fn wide_table(run: &Run, levels: &[Level<'_>]) -> ReportTable {
    match view::is_grid(run) {
        true => points(run, levels),
        false => series(run, levels),
    }
}

fn published(run: &Run) -> impl Iterator<Item = &ReferenceRow> {
    run.reference.iter().flat_map(|reference| &reference.rows)
}

fn series(run: &Run, levels: &[Level<'_>]) -> ReportTable {
    // Each series with the corresponding architecture.
    let mut series: Vec<(&str, Option<&str>)> = Vec::new();
    let mut clients: BTreeSet<u64> = levels.iter().map(|level| level.clients).collect();
    for row in published(run) {
        clients.insert(row.clients);
        if !series.iter().any(|(name, _)| *name == row.series) {
            series.push((&row.series, row.architecture.as_deref()));
        }
    }
    let mut headings = vec!["clients".to_owned()];
    let mut groups = vec![(String::new(), 1)];
    for (name, own) in &series {
        let own = own.map(|own| [format!("here: {own}"), "Mbit/s".to_owned()]);
        groups.push((
            name.replace('_', " "),
            2 + own.as_ref().map_or(0, |own| own.len()),
        ));
        headings.extend(["published", "Mbit/s"].map(str::to_owned));
        headings.extend(own.into_iter().flatten());
    }
    let pair = |mean: String, stddev: String| format!("{mean} ({stddev})");
    let mut table = ReportTable::new(1, headings).groups(groups);
    for clients in clients {
        let mut fields = vec![count(clients)];
        for (name, own) in &series {
            let mut rows = published(run).filter(|row| row.clients == clients);
            let row = rows.find(|row| row.series == *name);
            let theirs = row.map(|row| match row.sustained {
                true => pair(
                    maybe_count(row.latency_mean_ms),
                    maybe_count(row.latency_stddev_ms),
                ),
                false => "not sustained".to_owned(),
            });
            let mbit = row.and_then(mbit).map(|mbit| number(Some(mbit)));
            fields.extend([theirs, mbit].map(Option::unwrap_or_default));
            let mut rows = levels.iter().flat_map(Level::valid);
            if let Some(own) = own {
                let row = rows.find(|row| row.clients() == clients && row.name == *own);
                let figures = row.map(|row| &row.figures);
                let ms = |us: Option<f64>| number(us.map(ms));
                let ours = figures.map(|it| pair(ms(it.mean_us), ms(it.stddev_us)));
                let mbit = figures.map(|it| number(it.mbit_per_s));
                fields.extend([ours, mbit].map(Option::unwrap_or_default));
            }
        }
        table.row("", fields);
    }
    table
}

fn mbit(row: &ReferenceRow) -> Option<f64> {
    Some(row.throughput_bit_per_s? as f64 / 1e6)
}

fn rows(run: &Run, levels: &[Level<'_>]) -> ReportTable {
    let headings = [
        "clients",
        "series",
        "mean, ms",
        "sd, ms",
        "Mbit/s",
        "here: mean, ms",
        "sd, ms",
        "Mbit/s",
    ];
    let mut table = ReportTable::new(2, headings);
    for row in published(run) {
        let here = levels
            .iter()
            .filter(|level| *level.parameters == row.parameters);
        let own = here.flat_map(Level::valid).find(|own| {
            let cell = own.cells.first();
            own.clients() == row.clients
                && cell.map(|cell| &cell.architecture) == row.architecture.as_ref()
                && cell.is_some_and(|cell| cell.variant == row.variant)
        });
        let own = own.map(|own| own.figures.clone()).unwrap_or_default();
        let mean = match row.sustained {
            true => maybe_count(row.latency_mean_ms),
            false => "not sustained".to_owned(),
        };
        let stddev = row.latency_stddev_ms.filter(|_| row.sustained);
        let fields = [
            count(row.clients),
            row.series.clone(),
            mean,
            maybe_count(stddev),
            number(mbit(row)),
            number(own.mean_us.map(ms)),
            number(own.stddev_us.map(ms)),
            number(own.mbit_per_s),
        ];
        table.row("", fields);
    }
    table
}

fn ms(us: f64) -> f64 {
    us / 1e3
}

/// A point: clients, then the other coordinates in the order of their names.
type PointKey = (u64, Vec<(String, u64)>, String);

/// The published and the measured result of one subject at one point.
#[derive(Default)]
struct Point<'a> {
    theirs: Option<&'a ReferenceRow>,
    ours: Option<&'a SubjectRow<'a>>,
}

fn points(run: &Run, levels: &[Level<'_>]) -> ReportTable {
    let mut points: BTreeMap<PointKey, (String, Point<'_>)> = BTreeMap::new();
    for level in levels {
        for row in &level.rows {
            let key = key(level.clients, level.parameters, &row.name);
            let point = points.entry(key).or_default();
            (point.0, point.1.ours) = (level.label(), Some(row));
        }
    }
    for row in published(run) {
        let subject = match (&row.architecture, &row.variant) {
            (Some(architecture), Some(variant)) => format!("{architecture} {variant}"),
            (Some(architecture), None) => architecture.clone(),
            (None, _) => row.series.clone(),
        };
        let key = key(row.clients, &row.parameters, &subject);
        let point = points.entry(key).or_default();
        (point.0, point.1.theirs) = (view::label(row.clients, &row.parameters), Some(row));
    }
    let is_published =
        |column: &&PublishedColumn| published(run).any(|row| (column.theirs)(row).is_some());
    let columns: Vec<&PublishedColumn> = COLUMNS.iter().filter(is_published).collect();
    let headings = columns.iter().flat_map(|column| [column.heading, "here"]);
    let mut table = ReportTable::new(2, ["at", "served by"].into_iter().chain(headings));
    for ((_, _, subject), (label, point)) in points {
        let mut fields = vec![label, subject];
        for column in &columns {
            let theirs = match point.theirs {
                Some(row) if !row.sustained && column.heading == LATENCY => {
                    Some("not sustained".to_owned())
                }
                theirs => theirs.and_then(column.theirs),
            };
            let ours = point.ours.and_then(|row| (column.ours)(row, run));
            fields.extend([theirs, ours].map(Option::unwrap_or_default));
        }
        table.row("", fields);
    }
    table
}

fn key(clients: u64, parameters: &BTreeMap<String, f64>, subject: &str) -> PointKey {
    // The bits of non-negative floats sort like the floats.
    let parameters = parameters.iter();
    let parameters = parameters.map(|(name, value)| (name.clone(), value.max(0.0).to_bits()));
    (clients, parameters.collect(), subject.to_owned())
}

struct PublishedColumn {
    heading: &'static str,
    theirs: fn(&ReferenceRow) -> Option<String>,
    ours: fn(&SubjectRow<'_>, &Run) -> Option<String>,
}

const LATENCY: &str = "latency";

const COLUMNS: [PublishedColumn; 5] = [
    PublishedColumn {
        heading: "produced/s",
        theirs: |row| metric(row, "produced_per_s"),
        ours: |row, _| shown(row.sample()?.achieved_records_per_s),
    },
    PublishedColumn {
        heading: "delivered/s",
        theirs: |row| metric(row, "delivered_per_s"),
        ours: |row, _| shown(row.figures.delivered_per_s),
    },
    PublishedColumn {
        heading: "Mbit/s",
        theirs: |row| metric(row, "outbound_mbit_per_s"),
        ours: |row, _| shown(row.figures.mbit_per_s),
    },
    PublishedColumn {
        heading: LATENCY,
        theirs: |row| {
            let mean = count(row.latency_mean_ms?);
            Some(match row.latency_stddev_ms {
                Some(stddev) => format!("{mean} ({})", count(stddev)),
                None => mean,
            })
        },
        ours: |row, _| {
            let (mean, stddev) = (row.figures.mean_us?, row.figures.stddev_us?);
            Some(format!(
                "{} ({})",
                shown(Some(ms(mean)))?,
                shown(Some(ms(stddev)))?
            ))
        },
    },
    PublishedColumn {
        heading: "CPU, %",
        theirs: |row| metric(row, "machine_cpu_percent"),
        ours: |row, run| {
            let cores = row.sample()?.role("gateway")?.cpu_cores_mean?;
            shown(Some(cores / run.machine.cpu_cores.max(1) as f64 * 100.0))
        },
    },
];

fn metric(row: &ReferenceRow, name: &str) -> Option<String> {
    Some(figure(Some(*row.figures.get(name)?)))
}

fn shown(value: Option<f64>) -> Option<String> {
    Some(number(Some(value?)))
}
