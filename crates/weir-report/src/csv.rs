//! `cells.csv` (one row per cell) and `series.csv` (one row per second), for spreadsheets and
//! scripts.
//!
//! Numbers are plain decimals with a point, undefined numbers are empty. Headings contain the unit.

use std::collections::BTreeSet;

use csv::Writer;
use serde::Serialize;
use serde_json::Value;
use weir_stats::run::{Cell, CellStatus, Run, STAGE_RESPONSE};

use crate::escape;

/// Groups of columns: start of their headings, object in the JSON of a cell, and fields of this
/// object (`heading=pointer` if the heading differs).
const CELL: [[&str; 3]; 6] = [
    [
        "",
        "",
        "architecture clients repetition variant status=/status/state status_reason not_sustained \
         saturated_role saturation_reason warm_up_s hold_s offered_records_per_s \
         achieved_records_per_s record_bytes_mean",
    ],
    [
        "response_",
        "/latency/response",
        "count mean_us stddev_us min_us p50_us p90_us p95_us p99_us p999_us p9999_us max_us \
         clamped_count negative_count",
    ],
    ["service_", "/latency/service", "p50_us p99_us max_us"],
    [
        "schedule_lag_",
        "/latency/schedule_lag",
        "p50_us p99_us max_us",
    ],
    [
        "",
        "/delivery",
        "expected delivered lost duplicated reordered conflated unchecked disconnects \
         delivered_per_s received_bytes received_mbit_per_s",
    ],
    [
        "",
        "/fairness",
        "client_p99_min_us client_p99_p50_us client_p99_p90_us client_p99_max_us \
         deliveries_per_client_min=/deliveries_min deliveries_per_client_max=/deliveries_max",
    ],
];

const ROLE: &str = "cpu_us_total cpu_cores_mean cpu_us_per_delivered rss_max_bytes \
                    user_memory_per_client_bytes threads_max network_rx_bytes network_tx_bytes";

const POINT: &str = "t_s offered_per_s achieved_per_s delivered_per_s response_p50_us=/p50_us \
                     response_p99_us=/p99_us schedule_lag_p99_us=/lag_p99_us backlog";

/// Returns heading and JSON pointer of each field.
fn pointers(fields: &str) -> impl Iterator<Item = (String, String)> {
    fields
        .split_whitespace()
        .map(|field| match field.split_once('=') {
            Some((heading, pointer)) => (heading.to_owned(), pointer.to_owned()),
            None => (field.to_owned(), format!("/{field}")),
        })
}

pub(crate) fn cells(run: &Run) -> String {
    let usages = run.cells.iter().flat_map(|cell| &cell.roles);
    let roles: BTreeSet<&String> = usages.map(|usage| &usage.role).collect();
    let columns = CELL.iter().flat_map(|[prefix, at, fields]| {
        let fields = pointers(fields);
        fields.map(move |(heading, it)| (format!("{prefix}{heading}"), format!("{at}{it}")))
    });
    let columns: Vec<(String, String)> = columns.collect();
    let mut headings: Vec<String> = columns.iter().map(|(heading, _)| heading.clone()).collect();
    for role in &roles {
        headings.extend(pointers(ROLE).map(|(heading, _)| format!("{role}_{heading}")));
    }
    let rows = run.cells.iter().map(|cell| {
        let value = cell_json(cell);
        let mut row: Vec<String> = columns.iter().map(|(_, at)| field(&value, at)).collect();
        for role in &roles {
            let value = json(&cell.role(role));
            row.extend(pointers(ROLE).map(|(_, at)| field(&value, &at)));
        }
        row
    });
    text([headings].into_iter().chain(rows))
}

fn cell_json(cell: &Cell) -> Value {
    let mut cell = Cell {
        series: Vec::new(),
        ..cell.clone()
    };
    // Without deliveries, the count is zero.
    cell.latency.entry(STAGE_RESPONSE.to_owned()).or_default();
    let mut value = json(&cell);
    value["status_reason"] = match cell.status {
        CellStatus::Valid => Value::Null,
        CellStatus::Invalid { reasons } => reasons.join("; ").into(),
        CellStatus::Skipped { reason } => reason.into(),
    };
    value
}

/// Returns `series.csv`: one row per second and cell.
pub(crate) fn series(run: &Run) -> String {
    let points = || {
        let cells = run.cells.iter();
        cells.flat_map(|cell| cell.series.iter().map(move |point| (cell, point)))
    };
    let roles = points().flat_map(|(_, point)| point.cpu_cores.keys());
    let roles: BTreeSet<&String> = roles.collect();
    let columns = pointers("architecture clients repetition variant").chain(pointers(POINT));
    let cores = roles.iter().map(|role| format!("{role}_cpu_cores"));
    let headings = columns.map(|(heading, _)| heading).chain(cores);
    let rows = points().map(|(cell, point)| {
        let value = json(point);
        let mut row = vec![
            cell.architecture.clone(),
            cell.clients.to_string(),
            cell.repetition.to_string(),
            cell.variant.clone().unwrap_or_default(),
        ];
        row.extend(pointers(POINT).map(|(_, at)| field(&value, &at)));
        let cores = roles.iter().map(|role| point.cpu_cores.get(*role));
        row.extend(cores.map(|it| it.map_or_else(String::new, f64::to_string)));
        row
    });
    text([headings.collect()].into_iter().chain(rows))
}

fn json(value: &impl Serialize) -> Value {
    // Invariant: all map keys are strings; serde_json rejects nothing else.
    serde_json::to_value(value).expect("parts of a run are always valid JSON")
}

fn field(value: &Value, pointer: &str) -> String {
    match value.pointer(pointer) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        // Whole numbers have no decimals, as in Rust.
        Some(other) => match (other.as_u64(), other.as_f64()) {
            (None, Some(number)) => number.to_string(),
            _ => other.to_string(),
        },
    }
}

/// Returns rows of equal length as CSV; a text cannot become the formula of a spreadsheet.
pub(crate) fn text(rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut out = Writer::from_writer(Vec::new());
    for row in rows {
        let row = row.iter().map(|field| escape::formula(field).into_owned());
        // Invariant: writing to memory does not fail, and all rows have the same columns.
        out.write_record(row).expect("rows are of equal length");
    }
    let bytes = out.into_inner().expect("writing to memory does not fail");
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_stats::run::{DeliveryTotals, Fairness, RoleUsage, SeriesPoint};

    #[test]
    fn columns_are_fields_of_the_run() {
        let mut cell = Cell {
            delivery: Some(DeliveryTotals::default()),
            fairness: Some(Fairness::default()),
            ..Cell::default()
        };
        for stage in ["service", "schedule_lag"] {
            cell.latency.insert(stage.to_owned(), Default::default());
        }
        let value = cell_json(&cell);
        for [_, at, fields] in CELL {
            for (heading, pointer) in pointers(fields) {
                let at = format!("{at}{pointer}");
                assert!(value.pointer(&at).is_some(), "{heading}: {at}");
            }
        }
        let usage = json(&RoleUsage::default());
        assert!(pointers(ROLE).all(|(_, at)| usage.pointer(&at).is_some()));
        let point = json(&SeriesPoint::default());
        assert!(pointers(POINT).all(|(_, at)| point.pointer(&at).is_some()));
    }

    #[test]
    fn fields_are_quoted_and_guarded() {
        let row = ["plain", "a,\"b\"", "=1+1", "-2.5", "-x"].map(str::to_owned);
        assert_eq!(text([row.into()]), "plain,\"a,\"\"b\"\"\",'=1+1,-2.5,'-x\n");
    }
}
