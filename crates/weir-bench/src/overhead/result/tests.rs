//! Tests of limits and the verdict with synthetic cells.

use super::*;
use crate::environment;
use weir_stats::run::MachineUsage;

fn cell(variant: &str, repetition: u64, rate: Option<u64>, per_s: f64, cost: Option<f64>) -> Cell {
    let mut cell = Cell {
        architecture: "produce".to_owned(),
        variant: Some(variant.to_owned()),
        clients: 1,
        repetition,
        achieved_records_per_s: Some(per_s),
        ..Cell::default()
    };
    cell.parameters
        .extend(rate.map(|rate| (RATE.to_owned(), rate as f64)));
    cell.figures.insert("records_per_s".to_owned(), per_s);
    cell.figures
        .extend(cost.map(|cost| (CPU_PER_GB.to_owned(), cost)));
    cell
}

/// Returns a run of three repetitions in which the proxy has 0.95 of the relay's rate and 1.1 of
/// its cost.
fn run(cells: impl FnOnce(&mut Vec<Cell>)) -> Run {
    let mut plan = (*super::super::plan::tests::built_in()).clone();
    let throughput = FigureLimit {
        relative_to: Some("relay".to_owned()),
        lower_bound_at_least: Some(0.92),
        of: "pass-through".to_owned(),
        ..unthrottled("records_per_s")
    };
    plan.limits.insert(2, throughput);
    let mut run = folder::bare_run(["proxy-overhead", "", ""], &[], 0);
    run.machine = environment::machine();
    for (repetition, drift) in [(1, 1.0), (2, 0.8), (3, 1.1)] {
        run.cells.extend([
            cell("direct", repetition, None, 100_000.0 * drift, None),
            cell("relay", repetition, None, 90_000.0 * drift, Some(2.0)),
            cell(
                "pass-through",
                repetition,
                None,
                85_500.0 * drift,
                Some(2.2),
            ),
            cell("lower-case", repetition, None, 80_000.0 * drift, Some(2.8)),
        ]);
    }
    cells(&mut run.cells);
    conclude(&mut run, &plan, false);
    run
}

#[test]
fn limits_compare_within_each_repetition() {
    let run = run(|_| {});
    let found: Vec<(bool, String)> = run
        .thresholds
        .iter()
        .map(|it| (it.passed, format!("{:.3}", it.actual.unwrap_or(-1.0))))
        .collect();
    // No cell with the fixed rate or a consumer ran, so these limits fail.
    let expected = [
        (true, "1.100"),
        (false, "-1.000"),
        (true, "0.950"),
        (false, "0.600"),
        (false, "-1.000"),
    ];
    assert_eq!(
        found,
        expected.map(|(passed, text)| (passed, text.to_owned()))
    );
    assert_eq!(run.outcome, RunOutcome::ThresholdFailed);
    assert_eq!(run.thresholds[3].unit, "s/GB");
    assert!(
        run.verdict
            .contains("pass-through: 0.855 (0.855 to 0.855) of direct, 2.20 CPU s/GB."),
        "{}",
        run.verdict
    );
    assert!(
        run.verdict.ends_with("2 of 5 limits met."),
        "{}",
        run.verdict
    );
}

#[test]
fn missed_rates_and_other_processes_give_warnings() {
    let run = run(|cells| {
        for (repetition, per_s) in [(1, 19_900.0), (2, 15_000.0)] {
            cells.push(cell("relay", repetition, Some(20_000), per_s, None));
        }
        cells[0].machine = Some(MachineUsage {
            other_processes_cores: 1e6,
            ..MachineUsage::default()
        });
    });
    assert_eq!(run.warnings.len(), 2, "{:?}", run.warnings);
    let missed = "produce at 20000 records/s, relay: less than 99 % of the rate was reached in \
                  1 of 2 repetitions";
    assert!(run.warnings[0].starts_with(missed), "{:?}", run.warnings);
    assert!(
        run.warnings[1].ends_with("in 1 of 14 cells"),
        "{:?}",
        run.warnings
    );
    let lines: Vec<String> = run.cells.iter().map(line).collect();
    let marked = |line: &&String| line.ends_with(" (rate not reached)");
    assert_eq!(lines.iter().filter(marked).count(), 1, "{lines:?}");
}

#[test]
fn ratio_uses_shown_values_despite_invalid_repetition() {
    let run = run(|cells| {
        let invalid = cells
            .iter_mut()
            .find(|cell| cell.variant.as_deref() == Some("relay"));
        invalid.unwrap().status = CellStatus::Invalid {
            reasons: Vec::new(),
        };
    });
    let of = |name: &str| values(&run.cells, &unthrottled("records_per_s"), name);
    let (relay, direct) = (of("relay"), of("direct"));
    assert_eq!((relay.len(), direct.len()), (2, 3));
    let mean = |side: &[(u64, f64)]| {
        let values: Vec<f64> = side.iter().map(|(_, value)| *value).collect();
        interval::repetition_mean(&values).unwrap()
    };
    let shown = format!("relay: {:.3} (", mean(&relay) / mean(&direct));
    assert!(run.verdict.contains(&shown), "{shown}: {}", run.verdict);
}

#[test]
fn limits_on_absent_subjects_are_omitted() {
    let run = run(|cells| cells.retain(|cell| cell.variant.as_deref() != Some("relay")));
    assert_eq!(run.thresholds.len(), 1);
    assert!(
        run.thresholds[0]
            .expression
            .starts_with("lower-case.cpu_s_per_gb - pass-through")
    );
}

#[test]
fn idle_proxy_was_bypassed() {
    let server = Server::at("mine", "127.0.0.1:1");
    let worked = cell("mine", 1, None, 1.0, Some(1.5));
    assert!(check_not_bypassed(&server, &worked).is_ok());
    let idle = cell("mine", 1, None, 1.0, Some(0.0));
    assert!(check_not_bypassed(&server, &idle).is_err());
    let direct = Server::at("direct", "127.0.0.1:1");
    assert!(check_not_bypassed(&direct, &idle).is_ok());
    let unknown = cell("mine", 1, None, 1.0, None);
    assert!(check_not_bypassed(&server, &unknown).is_ok());
}

#[test]
fn variants_are_compared_with_direct() {
    let run = run(|_| {});
    let labels: Vec<_> = run
        .comparisons
        .iter()
        .map(|it| it.base.label.clone())
        .collect();
    assert_eq!(labels.len(), 3);
    assert!(
        labels.iter().all(|label| label.contains("direct")),
        "{labels:?}"
    );
}
