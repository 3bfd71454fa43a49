//! Figures of the published load test, built in to stand beside a run's own.

use weir_stats::run::{ReferenceFigures, ReferenceRow};

use super::model::Reference;

impl Reference {
    /// The rows of the plan and those of the built-in scenario it names.
    pub(super) fn figures(self) -> ReferenceFigures {
        let mut all = rows(&self.published, &self.gateway_series);
        all.extend(self.rows);
        ReferenceFigures {
            source: self.source,
            hardware: self.hardware,
            note: self.note,
            rows: all,
        }
    }
}

/// The rows of one published scenario, such as `scenario2`; empty if there is none of that name. Our
/// gateway stands beside `gateway_series`.
pub(super) fn rows(scenario: &str, gateway_series: &str) -> Vec<ReferenceRow> {
    let mut rows = Vec::new();
    for line in LATENCY.lines().chain(THROUGHPUT.lines()) {
        let cells: Vec<&str> = line.split(',').collect();
        let [test, series, clients, metric, value, _unit, status, ..] = cells[..] else {
            continue;
        };
        let Ok(clients) = clients.parse() else {
            continue;
        };
        if test == scenario && status != "not_published" {
            let architecture = match series {
                "kafka_consumer_groups" => Some("groups"),
                "kafka_standalone" => Some("standalone"),
                series if series == gateway_series => Some("gateway"),
                _ => None,
            };
            let row = entry(&mut rows, series, clients, architecture);
            enter(row, metric, (value, status));
        }
    }
    rows
}

/// The row of a series at a level.
fn entry<'a>(
    rows: &'a mut Vec<ReferenceRow>,
    series: &str,
    clients: u64,
    architecture: Option<&str>,
) -> &'a mut ReferenceRow {
    let same = |row: &ReferenceRow| row.series == series && row.clients == clients;
    let at = rows.iter().position(same).unwrap_or_else(|| {
        rows.push(ReferenceRow {
            series: series.to_owned(),
            architecture: architecture.map(str::to_owned),
            clients,
            latency_mean_ms: None,
            latency_stddev_ms: None,
            throughput_bit_per_s: None,
            sustained: true,
        });
        rows.len() - 1
    });
    &mut rows[at]
}

fn enter(row: &mut ReferenceRow, metric: &str, (value, status): (&str, &str)) {
    row.sustained &= status != "not_sustained";
    let value: Option<u64> = value.parse().ok();
    match metric {
        "mean_ms" => row.latency_mean_ms = value,
        "stddev_ms" => row.latency_stddev_ms = value,
        // Printed with the wrong prefix: G for M.
        _ if status == "suspect_unit" => row.throughput_bit_per_s = value.map(|bits| bits / 1000),
        _ => row.throughput_bit_per_s = value,
    }
}

const LATENCY: &str = include_str!("../../../../plans/published/latency.csv");
const THROUGHPUT: &str = include_str!("../../../../plans/published/throughput.csv");

#[cfg(test)]
mod tests {
    use super::*;

    fn row<'a>(rows: &'a [ReferenceRow], series: &str, clients: u64) -> &'a ReferenceRow {
        let found = rows
            .iter()
            .find(|row| row.series == series && row.clients == clients);
        found.expect("published")
    }

    #[test]
    fn cells_are_those_that_were_printed() {
        let first = rows("scenario1", "lightstreamer");
        let groups = row(&first, "kafka_consumer_groups", 16_000);
        assert_eq!(
            (groups.latency_mean_ms, groups.latency_stddev_ms),
            (Some(3376), Some(507))
        );
        assert_eq!(groups.architecture.as_deref(), Some("groups"));
        assert!(groups.sustained && !row(&first, "kafka_consumer_groups", 18_000).sustained);
        let no_dash = |row: &ReferenceRow| !row.sustained || row.latency_mean_ms.is_some();
        assert!(first.iter().all(no_dash));
        let second = rows("scenario2", "lightstreamer");
        let server = row(&second, "lightstreamer", 52_000);
        assert_eq!(server.latency_mean_ms, Some(24));
        assert_eq!(server.throughput_bit_per_s, Some(1_160_000_000));
        let third = rows("scenario3", "lightstreamer");
        let wrong_prefix = row(&third, "lightstreamer", 75_000);
        assert_eq!(wrong_prefix.throughput_bit_per_s, Some(537_000_000));
        assert_eq!(
            row(&third, "lightstreamer_jsonpatch", 2000).architecture,
            None
        );
        assert!(rows("scenario9", "lightstreamer").is_empty());
        let patches = rows("scenario3", "lightstreamer_jsonpatch");
        let ours = row(&patches, "lightstreamer_jsonpatch", 75_000);
        assert_eq!(ours.architecture.as_deref(), Some("gateway"));
        assert_eq!(ours.throughput_bit_per_s, Some(655_000_000));
        assert_eq!(row(&patches, "lightstreamer", 75_000).architecture, None);
    }
}
