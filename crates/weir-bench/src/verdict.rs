//! One-line results: of a cell during the run, and of the whole run.

use weir_stats::metric::Metric;
use weir_stats::run::{Cell, CellStatus, Repetitions, Run};

use super::figure_names::RATE;

/// Returns one line about a completed cell.
pub(super) fn cell(cell: &Cell) -> String {
    match &cell.status {
        CellStatus::Valid => match &cell.not_sustained {
            Some(reason) => format!("{}; not sustained: {reason}", measurements(cell)),
            None => measurements(cell),
        },
        CellStatus::Invalid { reasons } => format!("invalid: {}", reasons.join("; ")),
        CellStatus::Skipped { reason } => format!("skipped: {reason}"),
    }
}

fn measurements(cell: &Cell) -> String {
    let response = cell.response();
    let text = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |it| format!("{it:.1}"));
    let p50_ms = text(response.and_then(|it| Some(it.p50_us? / 1e3)));
    let p99_ms = text(response.and_then(|it| Some(it.p99_us? / 1e3)));
    let delivery = cell.delivery.as_ref();
    let per_s = delivery.and_then(|it| it.delivered_per_s).unwrap_or(0.0);
    let lost = delivery.map_or(0, |it| it.lost);
    let role = cell.delivering_role();
    let cpu = text(role.and_then(|role| role.cpu_us_per_delivered));
    let probe = match &cell.probe {
        Some(probe) if probe.ok => ", SDK client agrees",
        Some(_) => ", SDK client DISAGREES",
        None => "",
    };
    format!(
        "p50 {p50_ms} ms, p99 {p99_ms} ms, {per_s:.0} deliveries/s, {lost} lost, {cpu} us CPU per \
         delivery{probe}"
    )
}

/// Returns the names of the subjects in the order of their first cells.
pub(super) fn subjects(cells: &[Cell]) -> Vec<String> {
    let mut subjects: Vec<String> = Vec::new();
    for cell in cells {
        if !subjects.contains(&cell.name()) {
            subjects.push(cell.name());
        }
    }
    subjects
}

/// Returns the verdict of a run: each subject at its maximum sustained load.
pub(super) fn run(run: &Run) -> String {
    let subjects = subjects(&run.cells).into_iter();
    let sentences: Vec<String> = subjects.map(|name| sentence(&run.cells, &name)).collect();
    if sentences.is_empty() {
        return "No cell was measured.".to_owned();
    }
    format!("{}.", sentences.join("; "))
}

/// Returns a subject's highest sustained load and its lowest load that was not sustained, over all
/// repetitions.
fn sentence(cells: &[Cell], name: &str) -> String {
    let points = Repetitions::group(cells.iter().filter(|cell| cell.name() == name));
    let point_load = |point: &Repetitions<'_>| point.cells.first().map_or(0.0, |cell| load(cell));
    let sustained = points.iter().filter(|point| point.is_sustained());
    let sustained = sustained.max_by(|a, b| point_load(a).total_cmp(&point_load(b)));
    let failed = points.iter().filter_map(Repetitions::worst_not_sustained);
    let failed = failed.min_by(|a, b| load(a).total_cmp(&load(b)));
    let failed = failed.map_or_else(String::new, |cell| format!(", {}", not_sustained(cell)));
    let best = sustained.and_then(|point| Some((point, *point.cells.first()?)));
    let Some((point, cell)) = best else {
        return match failed.is_empty() {
            true => format!("{name}: no valid level"),
            false => format!("{name}: sustained no level{failed}"),
        };
    };
    let latency = match (
        point.mean(|cell| Metric::named("response_mean_ms")?.of(cell)),
        point.mean(|cell| Metric::named("response_p99_ms")?.of(cell)),
    ) {
        (Some(mean), Some(p99)) => format!("mean {mean:.1} ms, p99 {p99:.1} ms"),
        (Some(mean), None) => format!("mean {mean:.1} ms, too few values for p99"),
        (None, _) => "unknown latency".to_owned(),
    };
    let cpu = point.mean(|cell| cell.delivering_role()?.cpu_us_per_delivered);
    let cpu = cpu.map_or_else(String::new, |us| format!(", {us:.1} us CPU per delivery"));
    format!("{name}: {} with {latency}{cpu}{failed}", load_text(cell))
}

/// Returns the deliveries due per second.
fn load(cell: &Cell) -> f64 {
    cell.clients as f64 * cell.offered_records_per_s.max(1.0)
}

/// Returns the number of clients, and the rate if cells differ in it, as text.
fn load_text(cell: &Cell) -> String {
    let clients = clients(cell.clients);
    match cell.parameters.get(RATE) {
        Some(rate) => format!("{clients} at {rate} records/s"),
        None => clients,
    }
}

/// Returns for example `1 client` or `20 clients`.
pub(super) fn clients(count: u64) -> String {
    format!("{count} client{}", if count == 1 { "" } else { "s" })
}

/// Returns the load of a cell that was not sustained, the reason and the saturated role.
fn not_sustained(cell: &Cell) -> String {
    let reason = cell.not_sustained.as_deref().unwrap_or_default();
    let saturated = match (&cell.saturated_role, &cell.saturation_reason) {
        (Some(role), Some(reason)) => format!(" ({role} saturated: {reason})"),
        _ => String::new(),
    };
    let load = match cell.parameters.is_empty() {
        true => cell.clients.to_string(),
        false => load_text(cell),
    };
    format!("not {load}: {reason}{saturated}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use weir_stats::run::{DeliveryTotals, LatencySummary, RoleUsage, STAGE_RESPONSE};

    use super::*;

    #[test]
    fn cell_results_fit_on_one_line() {
        let latency = LatencySummary {
            p50_us: Some(1500.0),
            p99_us: Some(9000.0),
            ..LatencySummary::default()
        };
        let mut measured = Cell {
            architecture: "floor".to_owned(),
            latency: BTreeMap::from([(STAGE_RESPONSE.to_owned(), latency)]),
            delivery: Some(DeliveryTotals {
                delivered_per_s: Some(25.0),
                ..DeliveryTotals::default()
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

    /// Returns cells of two subjects at two levels, some of which are not sustained.
    fn repeated() -> impl Strategy<Value = Vec<Cell>> {
        let one = (0.5..2000.0_f64, 0.5..90.0_f64, prop::bool::weighted(0.1));
        prop::collection::vec(one, 4..24).prop_map(|values| {
            let cell = |(index, (mean_ms, cpu_us, late)): (usize, (f64, f64, bool))| {
                let (name, clients) =
                    [("gateway", 100), ("floor", 100), ("gateway", 200)][index % 3];
                let usage = RoleUsage {
                    role: name.to_owned(),
                    cpu_us_per_delivered: Some(cpu_us),
                    ..RoleUsage::default()
                };
                Cell {
                    architecture: name.to_owned(),
                    repetition: 1 + index as u64 / 3,
                    roles: vec![usage],
                    ..level(clients, mean_ms, late.then_some("late"))
                }
            };
            values.into_iter().enumerate().map(cell).collect()
        })
    }

    proptest! {
        /// Compares with [`Repetitions`], which the tables use.
        #[test]
        fn verdict_and_thresholds_agree_with_the_table(cells in repeated(), shift in 0_usize..24) {
            let points = Repetitions::group(&cells);
            for name in ["gateway", "floor"] {
                let sentence = sentence(&cells, name);
                let own = points.iter().filter(|it| it.cells[0].architecture == name);
                let sustained = own.filter(|it| it.is_sustained());
                let Some(best) = sustained.max_by_key(|it| it.cells[0].clients) else {
                    let expected = format!("{name}: sustained no level");
                    prop_assert!(sentence.starts_with(&expected), "{}", sentence);
                    continue;
                };
                let mean = best.mean(|cell| Some(cell.response()?.mean_us? / 1e3)).unwrap();
                let cpu = best.mean(|cell| cell.delivering_role()?.cpu_us_per_delivered).unwrap();
                let expected = format!(
                    "{name}: {} clients with mean {mean:.1} ms, too few values for p99, \
                     {cpu:.1} us CPU",
                    best.cells[0].clients
                );
                prop_assert!(sentence.starts_with(&expected), "{} | {}", expected, sentence);
            }
            let results = crate::plan::evaluate(&[ratio_of_cpu()], &cells);
            let cpu = |index: usize| {
                points[index].mean(|cell| cell.delivering_role()?.cpu_us_per_delivered)
            };
            let quotient = cpu(0).unwrap() / cpu(1).unwrap();
            let actual = results[0].actual.unwrap();
            prop_assert!((actual / quotient - 1.0).abs() < 1e-9);

            let mut rotated = cells.clone();
            rotated.rotate_left(shift % cells.len());
            for name in ["gateway", "floor"] {
                prop_assert_eq!(sentence(&rotated, name), sentence(&cells, name));
            }
            prop_assert_eq!(crate::plan::evaluate(&[ratio_of_cpu()], &rotated), results);
        }
    }

    fn ratio_of_cpu() -> crate::plan::Threshold {
        let text = "metric = \"cpu_us_per_delivered\"\nof = \"gateway\"\nrelative_to = \"floor\"\n\
                    clients = 100\nat_most = 1.0";
        toml::from_str(text).unwrap()
    }

    #[test]
    fn verdict_uses_mean_of_repetitions() {
        let cells = [2.0, 2.0, 40.0].map(|mean_ms| level(100, mean_ms, None));
        let expected = "standalone: 100 clients with mean 5.4 ms, too few values for p99";
        assert_eq!(sentence(&cells, "standalone"), expected);
    }

    #[test]
    fn verdict_names_sustained_and_failed_levels() {
        let mut cells = vec![
            level(100, 2.0, None),
            level(200, 5.0, None),
            level(400, 1500.0, Some("mean response 1500 ms, limit 1000 ms")),
        ];
        assert_eq!(
            sentence(&cells, "standalone"),
            "standalone: 200 clients with mean 5.0 ms, too few values for p99, not 400: mean \
             response 1500 ms, limit 1000 ms"
        );
        cells[2].saturated_role = Some("broker".to_owned());
        cells[2].saturation_reason = Some("thread io-0 used 98 % of a core".to_owned());
        assert_eq!(
            sentence(&cells[2..], "standalone"),
            "standalone: sustained no level, not 400: mean response 1500 ms, limit 1000 ms \
             (broker saturated: thread io-0 used 98 % of a core)"
        );
        assert_eq!(sentence(&[], "standalone"), "standalone: no valid level");
    }
}
