//! The answer in a sentence: of one cell while the run goes on, and of the whole run.

use weir_stats::run::{Cell, CellStatus, Run};

use super::cell::RATE;

/// One line about a cell that has ended.
pub(super) fn cell(cell: &Cell) -> String {
    match &cell.status {
        CellStatus::Valid => match &cell.not_sustained {
            Some(reason) => format!("{}; not sustained: {reason}", figures(cell)),
            None => figures(cell),
        },
        CellStatus::Invalid { reasons } => format!("invalid: {}", reasons.join("; ")),
        CellStatus::Skipped { reason } => format!("skipped: {reason}"),
    }
}

/// The same about a cell of a sweep.
pub(super) fn sweep_cell(measured: &Cell) -> String {
    let figure = |name: &str| measured.figures.get(name).copied();
    let told = match (figure("records_per_s"), figure("fetch_rate_mib_per_s")) {
        _ if !measured.is_valid() => return cell(measured),
        (Some(per_s), _) => format!(
            "{per_s:.0} records/s, {:.2} MB/s, mean {:.1} ms, max {:.1} ms",
            figure("mib_per_s").unwrap_or(0.0),
            figure("latency_mean_ms").unwrap_or(0.0),
            figure("latency_max_ms").unwrap_or(0.0),
        ),
        (None, Some(rate)) => format!(
            "{rate:.1} MB/s, {:.0} messages/s, partitions after {:.0} ms",
            figure("fetch_messages_per_s").unwrap_or(0.0),
            figure("rebalance_ms").unwrap_or(0.0),
        ),
        (None, None) => "no figures".to_owned(),
    };
    match &measured.not_sustained {
        Some(reason) => format!("{told}; not sustained: {reason}"),
        None => told,
    }
}

fn figures(cell: &Cell) -> String {
    let response = cell.response();
    let ms = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), |us| format!("{:.1}", us / 1e3));
    let (p50, p99) = (
        response.and_then(|r| r.p50_us),
        response.and_then(|r| r.p99_us),
    );
    let delivery = cell.delivery.clone().unwrap_or_default();
    let cpu = cell
        .delivering_role()
        .and_then(|role| role.cpu_us_per_delivered);
    let cpu = cpu.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}"));
    let probe = match &cell.probe {
        Some(probe) if probe.ok => ", SDK client agrees",
        Some(_) => ", SDK client does NOT agree",
        None => "",
    };
    format!(
        "p50 {} ms, p99 {} ms, {:.0} deliveries/s, {} lost, {cpu} us CPU per delivery{probe}",
        ms(p50),
        ms(p99),
        delivery.delivered_per_s.unwrap_or(0.0),
        delivery.lost,
    )
}

/// The sentence in front of every report: each subject at the most that it held.
pub(super) fn run(run: &Run) -> String {
    let mut subjects: Vec<String> = Vec::new();
    for cell in &run.cells {
        if !subjects.contains(&cell.name()) {
            subjects.push(cell.name());
        }
    }
    let sentences: Vec<String> = subjects
        .iter()
        .map(|name| sentence(&run.cells, name))
        .collect();
    if sentences.is_empty() {
        return "Nothing was measured.".to_owned();
    }
    format!("{}.", sentences.join("; "))
}

/// The most a subject held, and the first that it did not.
fn sentence(cells: &[Cell], name: &str) -> String {
    let cells = || cells.iter().filter(|cell| cell.name() == name);
    let load = |cell: &&Cell| cell.clients as f64 * cell.offered_records_per_s.max(1.0);
    let held = cells()
        .filter(|cell| cell.is_sustained())
        .max_by(|a, b| load(a).total_cmp(&load(b)));
    let beyond = cells()
        .find(|cell| cell.is_valid() && !cell.is_sustained())
        .map(limit);
    let beyond = beyond.map_or_else(String::new, |limit| format!(", {limit}"));
    let Some(cell) = held else {
        return match beyond.is_empty() {
            true => format!("{name}: no valid level"),
            false => format!("{name}: held no level{beyond}"),
        };
    };
    let response = cell.response();
    let ms = |us: Option<f64>| us.map(|us| us / 1e3);
    let late = match (
        ms(response.and_then(|r| r.mean_us)),
        ms(response.and_then(|r| r.p99_us)),
    ) {
        (Some(mean), Some(p99)) => format!("mean {mean:.1} ms, p99 {p99:.1} ms"),
        (Some(mean), None) => format!("mean {mean:.1} ms, too few for p99"),
        (None, _) => "unknown latency".to_owned(),
    };
    let cpu = cell
        .delivering_role()
        .and_then(|role| role.cpu_us_per_delivered);
    let cpu = cpu.map_or_else(String::new, |us| format!(", {us:.1} us CPU per delivery"));
    format!("{name}: {} with {late}{cpu}{beyond}", load_of(cell))
}

/// Clients, and the rate where cells differ in it.
fn load_of(cell: &Cell) -> String {
    let what = if cell.clients == 1 {
        "client"
    } else {
        "clients"
    };
    match cell.parameters.get(RATE) {
        Some(rate) => format!("{} {what} at {rate} records/s", cell.clients),
        None => format!("{} {what}", cell.clients),
    }
}

/// The first level that was too much, and what had no room left.
fn limit(cell: &Cell) -> String {
    let reason = cell.not_sustained.as_deref().unwrap_or_default();
    let saturated = match (&cell.saturated_role, &cell.saturated_why) {
        (Some(role), Some(why)) => format!(" ({role} saturated: {why})"),
        _ => String::new(),
    };
    let load = match cell.parameters.is_empty() {
        true => cell.clients.to_string(),
        false => load_of(cell),
    };
    format!("not {load}: {reason}{saturated}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_stats::run::{Delivery, LatencySummary, RoleUsage, STAGE_RESPONSE};

    use super::*;

    #[test]
    fn a_cell_is_told_in_one_line() {
        let latency = LatencySummary {
            p50_us: Some(1500.0),
            p99_us: Some(9000.0),
            ..LatencySummary::default()
        };
        let mut measured = Cell {
            architecture: "floor".to_owned(),
            latency: BTreeMap::from([(STAGE_RESPONSE.to_owned(), latency)]),
            delivery: Some(Delivery {
                delivered_per_s: Some(25.0),
                ..Delivery::default()
            }),
            roles: vec![RoleUsage {
                role: "floor".to_owned(),
                cpu_us_per_delivered: Some(10.0),
                ..RoleUsage::default()
            }],
            ..Cell::default()
        };
        assert_eq!(
            cell(&measured),
            "p50 1.5 ms, p99 9.0 ms, 25 deliveries/s, 0 lost, 10.0 us CPU per delivery"
        );
        measured.status = CellStatus::Skipped {
            reason: "too many".to_owned(),
        };
        assert_eq!(cell(&measured), "skipped: too many");
    }

    fn level(clients: u64, mean_ms: f64, not_sustained: Option<&str>) -> Cell {
        let latency = LatencySummary {
            mean_us: Some(mean_ms * 1e3),
            ..LatencySummary::default()
        };
        Cell {
            architecture: "standalone".to_owned(),
            clients,
            latency: BTreeMap::from([(STAGE_RESPONSE.to_owned(), latency)]),
            not_sustained: not_sustained.map(str::to_owned),
            ..Cell::default()
        }
    }

    #[test]
    fn the_run_tells_what_was_held_and_what_was_not() {
        let mut cells = vec![
            level(100, 2.0, None),
            level(200, 5.0, None),
            level(400, 1500.0, Some("mean response 1500 ms, limit 1000 ms")),
        ];
        assert_eq!(
            sentence(&cells, "standalone"),
            "standalone: 200 clients with mean 5.0 ms, too few for p99, not 400: mean response 1500 ms, \
             limit 1000 ms"
        );
        cells[2].saturated_role = Some("broker".to_owned());
        cells[2].saturated_why = Some("thread io-0 had 98 % of a core".to_owned());
        assert_eq!(
            sentence(&cells[2..], "standalone"),
            "standalone: held no level, not 400: mean response 1500 ms, limit 1000 ms (broker saturated: \
             thread io-0 had 98 % of a core)"
        );
        assert_eq!(sentence(&[], "standalone"), "standalone: no valid level");
    }
}
