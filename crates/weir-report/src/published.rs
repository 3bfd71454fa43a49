//! Published results next to those of this run, the same in all formats.

use std::collections::BTreeMap;
use std::slice;

use weir_stats::run::{ReferenceRow, Run};

use crate::format::{count, figure, number};
use crate::table::ReportTable;
use crate::view::{self, Level, RowStatus, SubjectRow};

pub(crate) const CAPTION: &str = "Latency: mean in ms and standard deviation. CPU: share of the \
                                  server’s machine. Empty: not published, or not run here.";

/// Returns the published results of the levels that this run has too.
fn published<'a>(run: &'a Run, levels: &'a [Level<'_>]) -> impl Iterator<Item = &'a ReferenceRow> {
    let rows = run.reference.iter().flat_map(|reference| &reference.rows);
    rows.filter(|row| view::is_run(levels, row))
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

/// Returns a row for each subject of the publication or of this run at the levels of both; empty if
/// they have none in common.
pub(crate) fn table(run: &Run, levels: &[Level<'_>]) -> ReportTable {
    let mut points: BTreeMap<PointKey, (String, Point<'_>)> = BTreeMap::new();
    let is_published = |level: &&Level<'_>| {
        let mut rows = published(run, levels);
        rows.any(|row| view::is_run(slice::from_ref(level), row))
    };
    for level in levels.iter().filter(is_published) {
        for row in &level.rows {
            let key = key(level.clients, level.parameters, &row.name);
            let point = points.entry(key).or_default();
            point.0 = level.label();
            point.1.ours = Some(row).filter(|row| row.state == RowStatus::Valid);
        }
    }
    for row in published(run, levels) {
        let subject = match (&row.architecture, &row.variant) {
            (Some(architecture), Some(variant)) => format!("{architecture} {variant}"),
            (Some(architecture), None) => architecture.clone(),
            (None, _) => row.series.clone(),
        };
        let mut key = key(row.clients, &row.parameters, &subject);
        if points
            .get(&key)
            .is_some_and(|(_, point)| point.theirs.is_some())
        {
            // Several series correspond to the same subject.
            key.2.clone_from(&row.series);
        }
        let point = points.entry(key).or_default();
        (point.0, point.1.theirs) = (view::label(row.clients, &row.parameters), Some(row));
    }
    let is_published = |column: &&PublishedColumn| {
        published(run, levels).any(|row| (column.theirs)(row).is_some())
    };
    let columns: Vec<&PublishedColumn> = COLUMNS.iter().filter(is_published).collect();
    let numbers = columns.iter().flat_map(|column| [column.heading, "here"]);
    let headings = ["at", "served by"]
        .into_iter()
        .chain(numbers)
        .chain(["published as"]);
    let mut table = ReportTable::new(2, headings).text_from(2 + 2 * columns.len());
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
        fields.push(
            point
                .theirs
                .map_or_else(String::new, |row| row.series.replace('_', " ")),
        );
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
        ours: |row, _| shown(row.representative()?.achieved_records_per_s),
    },
    PublishedColumn {
        heading: "delivered/s",
        theirs: |row| metric(row, "delivered_per_s"),
        ours: |row, _| shown(row.figures.delivered_per_s),
    },
    PublishedColumn {
        heading: "Mbit/s",
        theirs: |row| {
            let total = || shown(Some(row.throughput_bit_per_s? as f64 / 1e6));
            metric(row, "outbound_mbit_per_s").or_else(total)
        },
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
            let cores = row.representative()?.role("gateway")?.cpu_cores_mean?;
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
