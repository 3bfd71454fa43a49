//! Figures of the published load test, shown next to a run's own.

use serde::{Deserialize, Deserializer};
use weir_stats::run::{ReferenceFigures, ReferenceRow};

use crate::figure_names::RATE;

/// The `reference` table of a plan: rows, or the name of a built-in scenario.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Reference {
    source: String,
    hardware: String,
    note: String,
    /// Built-in scenario, for example scenario2 or filter-basic.
    #[serde(default)]
    published: String,
    /// Published series that is shown next to the gateway's figures.
    #[serde(default = "lightstreamer")]
    gateway_series: String,
    /// Further rows.
    #[serde(default)]
    rows: Vec<ReferenceRow>,
}

fn lightstreamer() -> String {
    "lightstreamer".to_owned()
}

/// Deserializes the rows of the plan and adds those of the built-in scenario that it names.
pub(super) fn figures<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<ReferenceFigures>, D::Error> {
    let reference = Reference::deserialize(deserializer)?;
    let mut all = rows(&reference.published, &reference.gateway_series);
    all.extend(filtering(&reference.published));
    all.extend(reference.rows);
    Ok(Some(ReferenceFigures {
        source: reference.source,
        hardware: reference.hardware,
        note: reference.note,
        rows: all,
    }))
}

/// Returns the figures of a test in a table: the first `N` fields of its lines, of which the last
/// is the status.
fn lines<const N: usize>(csv: &'static str, test: &str) -> impl Iterator<Item = [&'static str; N]> {
    csv.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split(',').take(N).collect();
        let fields: [&str; N] = fields.try_into().ok()?;
        (fields[0] == test && fields[N - 1] != "not_published").then_some(fields)
    })
}

/// Returns the rows of a published scenario, such as `scenario2`; empty if it does not exist. Rows
/// of `gateway_series` are shown next to Weir's gateway.
pub(super) fn rows(scenario: &str, gateway_series: &str) -> Vec<ReferenceRow> {
    let mut rows = Vec::new();
    let figures = lines(LATENCY, scenario).chain(lines(THROUGHPUT, scenario));
    for [_, series, clients, metric, value, _unit, status] in figures {
        let architecture = match series {
            "kafka_consumer_groups" => Some("groups"),
            "kafka_standalone" => Some("standalone"),
            series if series == gateway_series => Some("gateway"),
            _ => None,
        };
        let row = ReferenceRow {
            series: series.to_owned(),
            architecture: architecture.map(str::to_owned),
            clients: clients.parse().unwrap_or(0),
            sustained: true,
            ..ReferenceRow::default()
        };
        set_figure(find_or_insert(&mut rows, row), metric, (value, status));
    }
    rows
}

/// Returns the row with the coordinates of `row` and inserts it if it does not exist.
fn find_or_insert(rows: &mut Vec<ReferenceRow>, row: ReferenceRow) -> &mut ReferenceRow {
    let same = |it: &ReferenceRow| {
        (&it.series, &it.variant, it.clients) == (&row.series, &row.variant, row.clients)
            && it.parameters == row.parameters
    };
    let found = rows.iter().position(same);
    let at = found.unwrap_or(rows.len());
    if found.is_none() {
        rows.push(row);
    }
    &mut rows[at]
}

fn set_figure(row: &mut ReferenceRow, metric: &str, (value, status): (&str, &str)) {
    row.sustained &= status != "not_sustained";
    let value: Option<u64> = value.parse().ok();
    match metric {
        "mean_ms" => row.latency_mean_ms = value,
        "stddev_ms" => row.latency_stddev_ms = value,
        // The source prints the wrong unit prefix: G instead of M.
        _ if status == "suspect_unit" => row.throughput_bit_per_s = value.map(|bits| bits / 1000),
        _ => row.throughput_bit_per_s = value,
    }
}

/// Returns the rows of a published filtering test, such as `filter-basic`; empty if it does not
/// exist.
fn filtering(test: &str) -> Vec<ReferenceRow> {
    let mut rows = Vec::new();
    for [_, variant, rate, clients, metric, value, _unit, status] in lines(FILTERING, test) {
        let rate = rate.parse().unwrap_or(0.0);
        let row = ReferenceRow {
            series: "Lightstreamer Kafka Connector".to_owned(),
            architecture: Some("gateway".to_owned()),
            variant: Some(variant.to_owned()).filter(|name| !name.is_empty()),
            clients: clients.parse().unwrap_or(0),
            parameters: [(RATE.to_owned(), rate)].into(),
            sustained: true,
            ..ReferenceRow::default()
        };
        set_filtering_figure(find_or_insert(&mut rows, row), metric, (value, status));
    }
    rows
}

fn set_filtering_figure(row: &mut ReferenceRow, metric: &str, (value, status): (&str, &str)) {
    // A mean printed as "more than the limit" is not sustained either.
    row.sustained &= status == "ok";
    let name = match metric {
        "mean_ms" => return row.latency_mean_ms = value.parse().ok(),
        "stddev_ms" => return row.latency_stddev_ms = value.parse().ok(),
        "produced_msgs_per_s" => "produced_per_s",
        "client_msgs_per_s" => "delivered_per_s",
        "outbound_mbit_per_s" => "outbound_mbit_per_s",
        _ => "machine_cpu_percent",
    };
    if let Ok(value) = value.parse() {
        row.figures.insert(name.to_owned(), value);
    }
}

const FILTERING: &str = include_str!("../../../../plans/published/filtering.csv");
const LATENCY: &str = include_str!("../../../../plans/published/latency.csv");
const THROUGHPUT: &str = include_str!("../../../../plans/published/throughput.csv");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filtering_rows_carry_rate_and_variant() {
        let basic = filtering("filter-basic");
        assert_eq!(basic.len(), 6);
        let four = basic.iter().find(|row| {
            row.variant.as_deref() == Some("4-threads") && row.parameters[RATE] == 100_000.0
        });
        let four = four.expect("100K with 4 threads");
        assert_eq!(four.latency_mean_ms, Some(10));
        assert_eq!(four.figures["delivered_per_s"], 2640.0);
        assert_eq!(four.figures["machine_cpu_percent"], 21.0);
        let deep = filtering("filter-deep-key");
        let broken = deep.iter().filter(|row| !row.sustained);
        let broken: Vec<f64> = broken.map(|row| row.parameters[RATE]).collect();
        assert_eq!((deep.len(), broken), (8, vec![6000.0, 10_000.0]));
        let matrix = filtering("filter-matrix");
        assert_eq!(matrix.iter().filter(|row| row.sustained).count(), 23);
        assert!(matrix.iter().all(|row| row.variant.is_none()));
        assert!(filtering("scenario2").is_empty());
    }

    fn row<'a>(rows: &'a [ReferenceRow], series: &str, clients: u64) -> &'a ReferenceRow {
        let found = rows
            .iter()
            .find(|row| row.series == series && row.clients == clients);
        found.expect("published")
    }

    #[test]
    fn rows_match_the_published_tables() {
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
