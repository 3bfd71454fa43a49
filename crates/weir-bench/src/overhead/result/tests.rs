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

/// Returns a run of three repetitions in which the proxy has 0.95 of the relay's rate and 1.04
/// of its cost.
fn run(cells: impl FnOnce(&mut Vec<Cell>)) -> Run {
    let plan = super::super::plan::tests::built_in();
    let mut run = run_dir::bare_run(["proxy-overhead", "", ""], &[], 0);
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
                Some(2.08),
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
    let checked: Vec<(ThresholdStatus, String)> = run
        .thresholds
        .iter()
        .map(|it| (it.status, format!("{:.3}", it.actual.unwrap_or(-1.0))))
        .collect();
    use ThresholdStatus::{Failed, NotChecked, Passed};
    // No cell with the fixed rate or a consumer ran.
    let expected = [
        (Passed, "0.950"),
        (Passed, "1.040"),
        (NotChecked, "-1.000"),
        (Failed, "0.720"),
        (NotChecked, "-1.000"),
    ];
    assert_eq!(
        checked,
        expected.map(|(status, text)| (status, text.to_owned()))
    );
    let reason = run.thresholds[2].reason.as_deref();
    assert_eq!(reason, Some("neither pass-through nor relay was measured"));
    assert_eq!(run.outcome, RunOutcome::ThresholdFailed);
    assert_eq!(run.thresholds[3].unit, "s/GB");
    assert!(
        run.verdict
            .contains("pass-through: 0.855 (0.855 to 0.855) of direct, 2.08 CPU s/GB."),
        "{}",
        run.verdict
    );
    assert!(
        run.verdict
            .ends_with("2 of 3 thresholds passed, 2 not checked."),
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

/// If the interval contains the bound, the limit is undecided and needs more repetitions.
#[test]
fn wide_interval_is_undecided() {
    let plan = super::super::plan::tests::built_in();
    let cells = |ratios: &[f64]| -> Vec<Cell> {
        let pair = |(repetition, ratio): (u64, &f64)| {
            let proxy = cell("pass-through", repetition, None, 1000.0 * ratio, None);
            [cell("relay", repetition, None, 1000.0, None), proxy]
        };
        (1..).zip(ratios).flat_map(pair).collect()
    };
    let wide = undecided(&plan, &cells(&[0.8, 1.0, 1.1]));
    let ids: Vec<&str> = wide.iter().map(|limit| limit.figure.as_str()).collect();
    assert_eq!(ids, ["records_per_s"]);
    assert!(wide[0].needs((ClientSide::Produce, None)) && wide[0].compares("relay"));
    assert!(!wide[0].needs((ClientSide::Consume, None)) && !wide[0].compares("direct"));
    assert!(
        undecided(&plan, &cells(&[0.97, 0.98, 0.99])).is_empty(),
        "met"
    );
    assert!(
        undecided(&plan, &cells(&[0.80, 0.81, 0.82])).is_empty(),
        "missed"
    );
    assert!(undecided(&plan, &cells(&[0.5])).is_empty(), "no interval");
    let result = check(wide[0], &cells(&[0.8, 1.0, 1.1])).unwrap();
    let reason = result.reason.unwrap();
    assert!(reason.ends_with(" after 3 repetitions"), "{reason}");
}

#[test]
fn limits_on_absent_subjects_are_not_checked() {
    let run = run(|cells| cells.retain(|cell| cell.variant.as_deref() != Some("relay")));
    let checked = run.thresholds.iter();
    let mut checked = checked.filter(|it| it.status != ThresholdStatus::NotChecked);
    let only = checked.next().unwrap();
    assert!(
        only.expression.starts_with("lower-case.cpu_s_per_gb - "),
        "{only:?}"
    );
    assert_eq!(checked.next(), None);
    let reason = run.thresholds[0].reason.as_deref();
    assert_eq!(reason, Some("relay was not measured"));
}

#[test]
fn idle_proxy_was_bypassed() {
    let server = Server::at("mine", "127.0.0.1:1");
    let worked = cell("mine", 1, None, 1.0, Some(1.5));
    assert!(check_not_bypassed(&server, &worked).is_ok());
    let idle = cell("mine", 1, None, 1.0, Some(0.0));
    assert!(check_not_bypassed(&server, &idle).is_err());
    let direct = Server::direct("127.0.0.1:1");
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
