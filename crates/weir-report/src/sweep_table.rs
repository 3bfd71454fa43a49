//! Tables of a sweep: one row per record size and target rate, or per fetch size.

use std::collections::BTreeMap;

use weir_stats::run::{Cell, CellStatus, Repetitions, Run};

use crate::format;
use crate::table::ReportTable;

/// A group of cells in one table: their architectures, parameters and metrics.
struct CellGroup {
    title: &'static str,
    architectures: [&'static str; 2],
    parameters: &'static [(&'static str, &'static str)],
    figures: &'static [(&'static str, &'static str)],
}

const GROUPS: [CellGroup; 2] = [
    CellGroup {
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
    },
    CellGroup {
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
    },
];

/// Returns all tables of the run with their titles; none if the run is not a sweep. A row has the
/// means over the repetitions of one subject at one point, such as a record size and a rate.
pub(crate) fn tables(run: &Run) -> Vec<(&'static str, ReportTable)> {
    let tables = GROUPS.iter().map(|group| (group.title, table(run, group)));
    tables.filter(|(_, table)| !table.is_empty()).collect()
}

fn table(run: &Run, group: &CellGroup) -> ReportTable {
    // Parameters as whole numbers, index of the architecture and variant of an A/A test, shared by
    // the repetitions.
    type Point<'a> = (Vec<u64>, usize, Option<&'a str>);
    let mut points: BTreeMap<Point<'_>, Vec<&Cell>> = BTreeMap::new();
    for cell in &run.cells {
        let mut names = group.architectures.iter();
        let architecture = names.position(|name| *name == cell.architecture);
        let value = |(name, _): &(&str, &str)| Some(*cell.parameters.get(*name)? as u64);
        let parameters: Option<Vec<u64>> = group.parameters.iter().map(value).collect();
        if let Some((parameters, architecture)) = parameters.zip(architecture) {
            let point = (parameters, architecture, cell.variant.as_deref());
            points.entry(point).or_default().push(cell);
        }
    }
    let headings = group.parameters.iter().chain(group.figures);
    let headings = headings.map(|(_, heading)| *heading);
    let mut table = ReportTable::new(1, ["measured by"].into_iter().chain(headings));
    for ((parameters, ..), cells) in points {
        let mut fields = vec![cells[0].name().replace('_', " ")];
        fields.extend(parameters.into_iter().map(format::count));
        fields.extend(figures(group, Repetitions { cells }));
        table.row("", fields);
    }
    table
}

/// Returns the means over the valid repetitions, or the reason why there are none.
fn figures(group: &CellGroup, all: Repetitions<'_>) -> Vec<String> {
    if all.valid().next().is_none() {
        let reasons = all.cells.iter().find_map(|cell| match &cell.status {
            CellStatus::Valid => None,
            CellStatus::Invalid { reasons } => Some(format!("invalid: {}", reasons.join("; "))),
            CellStatus::Skipped { reason } => Some(format!("skipped: {reason}")),
        });
        return vec![reasons.unwrap_or_default()];
    }
    let mean = |name: &str| all.mean(|cell| cell.figures.get(name).copied());
    let means = group
        .figures
        .iter()
        .map(|(name, _)| format::figure(mean(name)));
    means.collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn run(cells: Vec<Cell>) -> Run {
        let text = r#"{"schema": "weir.run/3", "plan": "s", "title": "t", "question": "q",
            "started_utc": "", "finished_utc": "", "command_line": [],
            "weir_version": "0", "outcome": "complete", "verdict": "v",
            "confidence": {"level": "conclusive", "reasons": []},
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

    fn text(run: &Run) -> String {
        tables(run)
            .iter()
            .map(|(_, table)| table.text("", 80, false))
            .collect()
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
        let text = text(&run(cells));
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|it| it.split_whitespace().collect())
            .collect();
        assert_eq!(
            words[1],
            ["producer", "100", "2,000", "2,000", "–", "–", "–"],
            "{text}"
        );
        assert_eq!(
            words[2][..5],
            ["kafka", "producer", "100", "2,000", "1,500"],
            "{text}"
        );
        assert!(text.contains("9,000  skipped: too much"), "{text}");
        assert!(!text.contains("fetch"), "{text}");
    }

    #[test]
    fn variants_of_an_aa_test_have_their_rows() {
        let variant = |name: &str| Cell {
            variant: Some(name.to_owned()),
            ..cell("producer", 2000.0, 2000.0)
        };
        let text = text(&run(vec![variant("A"), variant("A again")]));
        let names = |line: &str| line.split("  ").next().map(str::to_owned);
        let names: Vec<String> = text.lines().skip(1).filter_map(names).collect();
        assert_eq!(names, ["producer A", "producer A again"], "{text}");
    }

    #[test]
    fn non_sweep_runs_have_no_tables() {
        assert_eq!(text(&run(vec![Cell::default()])), "");
    }
}
