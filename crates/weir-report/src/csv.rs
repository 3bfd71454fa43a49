//! `cells.csv` (one row per cell) and `series.csv` (one row per second), for spreadsheets and
//! scripts.
//!
//! Numbers are plain decimals with a point, undefined numbers are empty. Headings contain the unit.

use std::collections::BTreeSet;

use weir_stats::run::{
    Cell, CellStatus, DeliveryTotals, Fairness, LatencySummary, RoleUsage, Run, STAGE_SCHEDULE_LAG,
    STAGE_SERVICE,
};

use crate::escape;

/// Returns `cells.csv`.
pub(crate) fn cells(run: &Run) -> String {
    let roles: BTreeSet<&str> = run
        .cells
        .iter()
        .flat_map(|cell| &cell.roles)
        .map(|usage| usage.role.as_str())
        .collect();
    let mut table = CsvTable::default();
    for cell in &run.cells {
        table.row();
        identity(&mut table, cell);
        latency(&mut table, cell);
        delivery(&mut table, cell.delivery.as_ref());
        fairness(&mut table, cell.fairness);
        for role in &roles {
            usage(&mut table, role, cell.role(role));
        }
    }
    table.text()
}

/// Returns `series.csv`: one row per second and cell.
pub(crate) fn series(run: &Run) -> String {
    let points = || {
        run.cells
            .iter()
            .flat_map(|cell| cell.series.iter().map(move |p| (cell, p)))
    };
    let roles: BTreeSet<&str> = points()
        .flat_map(|(_, point)| point.cpu_cores.keys())
        .map(String::as_str)
        .collect();
    let mut table = CsvTable::default();
    for (cell, point) in points() {
        table.row();
        table.text_field("architecture", &cell.architecture);
        table.field("clients", cell.clients);
        table.field("repetition", cell.repetition);
        table.field("t_s", point.t_s);
        table.maybe("offered_per_s", point.offered_per_s);
        table.maybe("achieved_per_s", point.achieved_per_s);
        table.maybe("delivered_per_s", point.delivered_per_s);
        table.maybe("response_p50_us", point.p50_us);
        table.maybe("response_p99_us", point.p99_us);
        table.maybe("schedule_lag_p99_us", point.lag_p99_us);
        table.maybe("backlog", point.backlog);
        for role in &roles {
            table.maybe(
                &format!("{role}_cpu_cores"),
                point.cpu_cores.get(*role).copied(),
            );
        }
    }
    table.text()
}

fn identity(table: &mut CsvTable, cell: &Cell) {
    let (status, reason) = match &cell.status {
        CellStatus::Valid => ("valid", String::new()),
        CellStatus::Invalid { reasons } => ("invalid", reasons.join("; ")),
        CellStatus::Skipped { reason } => ("skipped", reason.clone()),
    };
    table.text_field("architecture", &cell.architecture);
    table.field("clients", cell.clients);
    table.field("repetition", cell.repetition);
    table.text_field("status", status);
    table.text_field("status_reason", &reason);
    table.text_field("not_sustained", cell.not_sustained.as_deref().unwrap_or(""));
    table.text_field(
        "saturated_role",
        cell.saturated_role.as_deref().unwrap_or(""),
    );
    table.text_field(
        "saturation_reason",
        cell.saturation_reason.as_deref().unwrap_or(""),
    );
    table.field("warm_up_s", cell.warm_up_s);
    table.field("hold_s", cell.hold_s);
    table.field("offered_records_per_s", cell.offered_records_per_s);
    table.maybe("achieved_records_per_s", cell.achieved_records_per_s);
    table.maybe("record_bytes_mean", cell.record_bytes_mean);
}

fn latency(table: &mut CsvTable, cell: &Cell) {
    let empty = LatencySummary::default();
    let response = cell.response().unwrap_or(&empty);
    table.field("response_count", response.count);
    for (name, value) in [
        ("response_mean_us", response.mean_us),
        ("response_stddev_us", response.stddev_us),
        ("response_min_us", response.min_us),
        ("response_p50_us", response.p50_us),
        ("response_p90_us", response.p90_us),
        ("response_p95_us", response.p95_us),
        ("response_p99_us", response.p99_us),
        ("response_p999_us", response.p999_us),
        ("response_p9999_us", response.p9999_us),
        ("response_max_us", response.max_us),
    ] {
        table.maybe(name, value);
    }
    table.field("response_clamped_count", response.clamped_count);
    table.field("response_negative_count", response.negative_count);
    for stage in [STAGE_SERVICE, STAGE_SCHEDULE_LAG] {
        let summary = cell.latency.get(stage);
        table.maybe(
            &format!("{stage}_p50_us"),
            summary.and_then(|summary| summary.p50_us),
        );
        table.maybe(
            &format!("{stage}_p99_us"),
            summary.and_then(|summary| summary.p99_us),
        );
        table.maybe(
            &format!("{stage}_max_us"),
            summary.and_then(|summary| summary.max_us),
        );
    }
}

fn delivery(table: &mut CsvTable, delivery: Option<&DeliveryTotals>) {
    let count = |pick: fn(&DeliveryTotals) -> u64| delivery.map(pick);
    table.maybe("expected", count(|delivery| delivery.expected));
    table.maybe("delivered", count(|delivery| delivery.delivered));
    table.maybe("lost", count(|delivery| delivery.lost));
    table.maybe("duplicated", count(|delivery| delivery.duplicated));
    table.maybe("reordered", count(|delivery| delivery.reordered));
    table.maybe("conflated", count(|delivery| delivery.conflated));
    table.maybe("unchecked", count(|delivery| delivery.unchecked));
    table.maybe("disconnects", count(|delivery| delivery.disconnects));
    table.maybe(
        "delivered_per_s",
        delivery.and_then(|delivery| delivery.delivered_per_s),
    );
    table.maybe("received_bytes", count(|delivery| delivery.received_bytes));
    table.maybe(
        "received_mbit_per_s",
        delivery.and_then(|delivery| delivery.received_mbit_per_s),
    );
}

fn fairness(table: &mut CsvTable, fairness: Option<Fairness>) {
    table.maybe(
        "client_p99_min_us",
        fairness.and_then(|fair| fair.client_p99_min_us),
    );
    table.maybe(
        "client_p99_p50_us",
        fairness.and_then(|fair| fair.client_p99_p50_us),
    );
    table.maybe(
        "client_p99_p90_us",
        fairness.and_then(|fair| fair.client_p99_p90_us),
    );
    table.maybe(
        "client_p99_max_us",
        fairness.and_then(|fair| fair.client_p99_max_us),
    );
    table.maybe(
        "deliveries_per_client_min",
        fairness.map(|fair| fair.deliveries_min),
    );
    table.maybe(
        "deliveries_per_client_max",
        fairness.map(|fair| fair.deliveries_max),
    );
}

fn usage(table: &mut CsvTable, role: &str, usage: Option<&RoleUsage>) {
    let mut column = |name: &str, value: Option<f64>| table.maybe(&format!("{role}_{name}"), value);
    let whole = |value: Option<u64>| value.map(|value| value as f64);
    column("cpu_us_total", whole(usage.map(|usage| usage.cpu_us_total)));
    column(
        "cpu_cores_mean",
        usage.and_then(|usage| usage.cpu_cores_mean),
    );
    column(
        "cpu_us_per_delivered",
        usage.and_then(|usage| usage.cpu_us_per_delivered),
    );
    column(
        "rss_max_bytes",
        whole(usage.and_then(|usage| usage.rss_max_bytes)),
    );
    column(
        "user_memory_per_client_bytes",
        usage.and_then(|usage| usage.user_memory_per_client_bytes),
    );
    column(
        "threads_max",
        whole(usage.and_then(|usage| usage.threads_max)),
    );
    column(
        "network_rx_bytes",
        whole(usage.and_then(|usage| usage.network_rx_bytes)),
    );
    column(
        "network_tx_bytes",
        whole(usage.and_then(|usage| usage.network_tx_bytes)),
    );
}

/// A CSV table under construction; the headings are those of the first row.
#[derive(Default)]
struct CsvTable {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl CsvTable {
    fn row(&mut self) {
        self.rows.push(Vec::new());
    }

    fn push(&mut self, heading: &str, value: String) {
        if self.rows.len() == 1 {
            self.headings.push(escape::csv(heading).into_owned());
        }
        if let Some(row) = self.rows.last_mut() {
            row.push(value);
        }
    }

    fn text_field(&mut self, heading: &str, value: &str) {
        self.push(heading, escape::csv(value).into_owned());
    }

    fn field(&mut self, heading: &str, value: impl ToString) {
        self.push(heading, value.to_string());
    }

    fn maybe(&mut self, heading: &str, value: Option<impl ToString>) {
        self.push(
            heading,
            value.map_or_else(String::new, |value| value.to_string()),
        );
    }

    fn text(self) -> String {
        let lines = std::iter::once(self.headings).chain(self.rows);
        lines.fold(String::new(), |out, row| out + &row.join(",") + "\n")
    }
}
