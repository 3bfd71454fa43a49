//! Published results of a grid next to those of this run: one row per point and subject, the same
//! in all formats.

use weir_stats::run::{ReferenceFigures, ReferenceRow, Run};

use crate::format;
use crate::view::{Level, SubjectRow};

/// Published and measured results of all points.
pub(crate) struct Points {
    /// One heading per pair of values.
    pub(crate) headings: Vec<&'static str>,
    /// Rows by clients and the other coordinates.
    pub(crate) lines: Vec<PointLine>,
}

/// One point of one subject. A value that was not published or not measured is empty.
pub(crate) struct PointLine {
    pub(crate) label: String,
    pub(crate) subject: String,
    /// Pairs of published and measured value.
    pub(crate) figures: Vec<(String, String)>,
}

/// Returns the columns with at least one published value.
pub(crate) fn points(run: &Run, reference: &ReferenceFigures, levels: &[Level<'_>]) -> Points {
    let lines = lines(reference, levels);
    let published = |column: &&PublishedColumn| {
        let mut rows = lines.iter().filter_map(|line| line.theirs);
        rows.any(|row| (column.theirs)(row).is_some())
    };
    let columns: Vec<&PublishedColumn> = COLUMNS.iter().filter(published).collect();
    let figures = |line: &PublishedRow<'_>| {
        let pairs = columns.iter().map(|column| {
            let theirs = match line.theirs {
                Some(row) if !row.sustained && column.is_latency => {
                    Some("not sustained".to_owned())
                }
                Some(row) => (column.theirs)(row),
                None => None,
            };
            let ours = line.ours.and_then(|row| (column.ours)(row, run));
            (theirs.unwrap_or_default(), ours.unwrap_or_default())
        });
        pairs.collect()
    };
    Points {
        headings: columns.iter().map(|column| column.heading).collect(),
        lines: lines
            .iter()
            .map(|line| PointLine {
                label: line.label.clone(),
                subject: line.subject.clone(),
                figures: figures(line),
            })
            .collect(),
    }
}

/// Caption of the table.
pub(crate) const CAPTION: &str = "Latency: mean in ms and standard deviation. CPU: share of the \
                                  server’s machine. Empty: not published, or not run here.";

/// A point: clients, then the other coordinates in the order of their names.
type PublishedKey = (u64, Vec<(String, u64)>, String);

struct PublishedRow<'a> {
    label: String,
    subject: String,
    theirs: Option<&'a ReferenceRow>,
    ours: Option<&'a SubjectRow<'a>>,
}

fn lines<'a>(reference: &'a ReferenceFigures, levels: &'a [Level<'a>]) -> Vec<PublishedRow<'a>> {
    let mut lines: Vec<(PublishedKey, PublishedRow<'a>)> = Vec::new();
    for level in levels {
        for row in &level.rows {
            let key = key(level.clients, level.parameters, &row.name);
            let line = PublishedRow {
                label: level.label(),
                subject: row.name.clone(),
                theirs: None,
                ours: Some(row),
            };
            lines.push((key, line));
        }
    }
    for row in &reference.rows {
        let subject = match (&row.architecture, &row.variant) {
            (Some(architecture), Some(variant)) => format!("{architecture} {variant}"),
            (Some(architecture), None) => architecture.clone(),
            (None, _) => row.series.clone(),
        };
        let key = key(row.clients, &row.parameters, &subject);
        match lines.iter_mut().find(|(known, _)| *known == key) {
            Some((_, line)) => line.theirs = Some(row),
            None => {
                let place = Level {
                    clients: row.clients,
                    parameters: &row.parameters,
                    rows: Vec::new(),
                };
                let line = PublishedRow {
                    label: place.label(),
                    subject,
                    theirs: Some(row),
                    ours: None,
                };
                lines.push((key, line));
            }
        }
    }
    lines.sort_by(|a, b| a.0.cmp(&b.0));
    lines.into_iter().map(|(_, line)| line).collect()
}

fn key(
    clients: u64,
    parameters: &std::collections::BTreeMap<String, f64>,
    subject: &str,
) -> PublishedKey {
    // The bits of non-negative floats sort like the floats.
    let parameters = parameters
        .iter()
        .map(|(name, value)| (name.clone(), value.max(0.0).to_bits()))
        .collect();
    (clients, parameters, subject.to_owned())
}

struct PublishedColumn {
    heading: &'static str,
    is_latency: bool,
    theirs: fn(&ReferenceRow) -> Option<String>,
    ours: fn(&SubjectRow<'_>, &Run) -> Option<String>,
}

const COLUMNS: [PublishedColumn; 5] = [
    PublishedColumn {
        heading: "produced/s",
        is_latency: false,
        theirs: |row| figure(row, "produced_per_s"),
        ours: |row, _| shown(row.sample()?.achieved_records_per_s),
    },
    PublishedColumn {
        heading: "delivered/s",
        is_latency: false,
        theirs: |row| figure(row, "delivered_per_s"),
        ours: |row, _| shown(row.figures.delivered_per_s),
    },
    PublishedColumn {
        heading: "Mbit/s",
        is_latency: false,
        theirs: |row| figure(row, "outbound_mbit_per_s"),
        ours: |row, _| shown(row.figures.mbit_per_s),
    },
    PublishedColumn {
        heading: "latency",
        is_latency: true,
        theirs: |row| {
            let mean = format::count(row.latency_mean_ms?);
            Some(match row.latency_stddev_ms {
                Some(stddev) => format!("{mean} ({})", format::count(stddev)),
                None => mean,
            })
        },
        ours: |row, _| {
            let ms = |us: Option<f64>| shown(us.map(|us| us / 1e3));
            Some(format!(
                "{} ({})",
                ms(row.figures.mean_us)?,
                ms(row.figures.stddev_us)?
            ))
        },
    },
    PublishedColumn {
        heading: "CPU, %",
        is_latency: false,
        theirs: |row| figure(row, "machine_cpu_percent"),
        ours: |row, run| {
            let cores = row.sample()?.role("gateway")?.cpu_cores_mean?;
            shown(Some(cores / run.machine.cpu_cores.max(1) as f64 * 100.0))
        },
    },
];

fn figure(row: &ReferenceRow, name: &str) -> Option<String> {
    Some(format::figure(Some(*row.figures.get(name)?)))
}

fn shown(value: Option<f64>) -> Option<String> {
    Some(format::number(Some(value?)))
}
