//! Tables of a sweep: one row per record size and target rate, or per fetch size.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use weir_stats::interval;
use weir_stats::run::{Cell, CellStatus, Run};

use crate::escape::terminal;
use crate::format;

/// Returns the tables as text, or `None` if the run is not a sweep.
pub(crate) fn sweep_tables(run: &Run) -> Option<String> {
    let tables: Vec<String> = tables(run).iter().map(SweepTable::text).collect();
    (!tables.is_empty()).then(|| tables.concat())
}

/// One table: one row per point and tool, with means over the repetitions.
pub(crate) struct SweepTable {
    pub(crate) title: &'static str,
    /// Headings of parameters and metrics.
    pub(crate) headings: Vec<&'static str>,
    pub(crate) rows: Vec<SweepRow>,
}

/// One row.
pub(crate) struct SweepRow {
    pub(crate) name: String,
    pub(crate) parameters: Vec<String>,
    /// The results, or the reason why there are none.
    pub(crate) figures: Result<Vec<String>, String>,
}

/// Returns all tables of the run; none if the run is not a sweep.
pub(crate) fn tables(run: &Run) -> Vec<SweepTable> {
    let kinds = [&PRODUCERS, &CONSUMERS].into_iter();
    kinds.filter_map(|kind| table(run, kind)).collect()
}

impl SweepTable {
    fn text(&self) -> String {
        let mut out = format!("\n{}\n{:14}", self.title, "");
        for heading in &self.headings {
            let _ = write!(out, "{heading:>WIDTH$}");
        }
        out.push('\n');
        for row in &self.rows {
            let _ = write!(out, "{:14}", row.name);
            for value in &row.parameters {
                let _ = write!(out, "{value:>WIDTH$}");
            }
            match &row.figures {
                Ok(figures) => {
                    for value in figures {
                        let _ = write!(out, "{value:>WIDTH$}");
                    }
                }
                Err(reason) => {
                    let _ = write!(out, "  {}", terminal(reason));
                }
            }
            out.push('\n');
        }
        out
    }
}

/// A group of cells in one table: their architectures, parameters and metrics.
struct CellGroup {
    title: &'static str,
    architectures: [&'static str; 2],
    parameters: &'static [(&'static str, &'static str)],
    figures: &'static [(&'static str, &'static str)],
}

const PRODUCERS: CellGroup = CellGroup {
    title: "producers",
    architectures: ["producer", "kafka_producer"],
    parameters: &[
        ("record_size_bytes", "size B"),
        ("target_per_s", "target/s"),
    ],
    figures: &[
        ("records_per_s", "real/s"),
        ("mib_per_s", "MiB/s"),
        ("latency_mean_ms", "mean ms"),
        ("latency_max_ms", "max ms"),
    ],
};

const CONSUMERS: CellGroup = CellGroup {
    title: "consumers",
    architectures: ["consumer", "kafka_consumer"],
    parameters: &[("fetch_size_bytes", "fetch B")],
    figures: &[
        ("data_mib", "MiB"),
        ("rate_mib_per_s", "MiB/s"),
        ("messages_per_s", "records/s"),
        ("rebalance_ms", "join ms"),
        ("fetch_ms", "fetch ms"),
        ("fetch_rate_mib_per_s", "fetch MiB/s"),
        ("fetch_messages_per_s", "fetch rec/s"),
    ],
};

/// Parameters as whole numbers and index of the architecture, shared by the repetitions of a cell.
type GroupKey = (Vec<u64>, usize);

fn table(run: &Run, kind: &CellGroup) -> Option<SweepTable> {
    let mut rows: BTreeMap<GroupKey, Vec<&Cell>> = BTreeMap::new();
    for cell in &run.cells {
        if let Some(key) = key(kind, cell) {
            rows.entry(key).or_default().push(cell);
        }
    }
    let headings = kind.parameters.iter().chain(kind.figures);
    let row = |((parameters, whose), cells): (&GroupKey, &Vec<&Cell>)| SweepRow {
        name: kind.architectures[*whose].replace('_', " "),
        parameters: parameters
            .iter()
            .map(|value| format::count(*value))
            .collect(),
        figures: figures(kind, cells)
            .map(|figures| figures.into_iter().map(format::figure).collect()),
    };
    (!rows.is_empty()).then(|| SweepTable {
        title: kind.title,
        headings: headings.map(|(_, heading)| *heading).collect(),
        rows: rows.iter().map(row).collect(),
    })
}

fn key(kind: &CellGroup, cell: &Cell) -> Option<GroupKey> {
    let names = &kind.architectures;
    let whose = names.iter().position(|it| *it == cell.architecture)?;
    let value = |(name, _): &(&str, &str)| cell.parameters.get(*name).map(|value| *value as u64);
    let parameters: Option<Vec<u64>> = kind.parameters.iter().map(value).collect();
    Some((parameters?, whose))
}

/// Returns the means over the valid repetitions, or the reason why there are none.
fn figures(kind: &CellGroup, cells: &[&Cell]) -> Result<Vec<Option<f64>>, String> {
    let valid: Vec<&&Cell> = cells.iter().filter(|cell| cell.is_valid()).collect();
    if valid.is_empty() {
        return Err(cells
            .iter()
            .find_map(|cell| reason(&cell.status))
            .unwrap_or_default());
    }
    let mean = |name: &str| {
        let values: Vec<f64> = valid
            .iter()
            .filter_map(|cell| cell.figures.get(name).copied())
            .collect();
        interval::repetition_mean(&values)
    };
    Ok(kind.figures.iter().map(|(name, _)| mean(name)).collect())
}

fn reason(status: &CellStatus) -> Option<String> {
    match status {
        CellStatus::Valid => None,
        CellStatus::Invalid { reasons } => Some(format!("invalid: {}", reasons.join("; "))),
        CellStatus::Skipped { reason } => Some(format!("skipped: {reason}")),
    }
}

const WIDTH: usize = 12;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run(cells: Vec<Cell>) -> Run {
        let text = r#"{"schema": "weir.run/2", "plan": "s", "title": "t", "question": "q",
            "started_utc": "", "finished_utc": "", "command_line": [],
            "weir_version": "0", "outcome": "passed", "verdict": "v",
            "machine": {"cpu_model": "", "cpu_cores": 1, "memory_bytes": 1, "kernel": "", "os": ""},
            "clock": {"mode": "same_host", "bound_ns": 0}}"#;
        let mut run = Run::from_json(text).unwrap();
        run.cells = cells;
        run
    }

    fn cell(architecture: &str, target: f64, per_s: f64) -> Cell {
        let mut cell = Cell {
            architecture: architecture.to_owned(),
            ..Cell::default()
        };
        let parameters = [("record_size_bytes", 100.0), ("target_per_s", target)];
        cell.parameters
            .extend(parameters.map(|(name, value)| (name.to_owned(), value)));
        cell.figures.insert("records_per_s".to_owned(), per_s);
        cell
    }

    #[test]
    fn each_point_and_tool_has_a_row() {
        let mut skipped = cell("producer", 9000.0, 0.0);
        skipped.status = CellStatus::Skipped {
            reason: "too much".to_owned(),
        };
        let cells = vec![
            cell("producer", 2000.0, 1990.0),
            cell("producer", 2000.0, 2010.0),
            cell("kafka_producer", 2000.0, 1500.0),
            skipped,
        ];
        let text = sweep_tables(&run(cells)).unwrap();
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|it| it.split_whitespace().collect())
            .collect();
        assert_eq!(
            words[3],
            ["producer", "100", "2,000", "2,000", "–", "–", "–"],
            "{text}"
        );
        assert_eq!(
            words[4][..5],
            ["kafka", "producer", "100", "2,000", "1,500"],
            "{text}"
        );
        assert!(text.contains("9,000  skipped: too much"), "{text}");
        assert!(!text.contains("consumers"), "{text}");
    }

    #[test]
    fn non_sweep_runs_have_no_tables() {
        assert_eq!(sweep_tables(&run(vec![Cell::default()])), None);
    }
}
