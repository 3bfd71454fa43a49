//! The answer in a sentence: of one cell while the run goes on, and of the whole run.

use weir_stats::run::{Cell, CellStatus, Run};

/// One line about a cell that has ended.
pub(super) fn cell(cell: &Cell) -> String {
    match &cell.status {
        CellStatus::Valid => figures(cell),
        CellStatus::Invalid { reasons } => format!("invalid: {}", reasons.join("; ")),
        CellStatus::Skipped { reason } => format!("skipped: {reason}"),
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

/// The sentence in front of every report: each architecture at the highest level it held.
pub(super) fn run(run: &Run) -> String {
    let architectures = run.architectures();
    let sentences: Vec<String> = architectures
        .into_iter()
        .map(|name| highest(run, name))
        .collect();
    if sentences.is_empty() {
        return "Nothing was measured.".to_owned();
    }
    format!("{}.", sentences.join("; "))
}

fn highest(run: &Run, architecture: &str) -> String {
    let cells = run
        .cells
        .iter()
        .filter(|cell| cell.architecture == architecture);
    let valid = cells
        .filter(|cell| cell.is_valid())
        .max_by_key(|cell| cell.clients);
    let Some(cell) = valid else {
        return format!("{architecture}: no valid level");
    };
    let p99 = cell.response().and_then(|response| response.p99_us);
    let p99 = p99.map_or_else(
        || "unknown p99".to_owned(),
        |us| format!("p99 {:.1} ms", us / 1e3),
    );
    let cpu = cell
        .delivering_role()
        .and_then(|role| role.cpu_us_per_delivered);
    let cpu = cpu.map_or_else(String::new, |us| format!(", {us:.1} us CPU per delivery"));
    format!("{architecture}: {} clients with {p99}{cpu}", cell.clients)
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
}
