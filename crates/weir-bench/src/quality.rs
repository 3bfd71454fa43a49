//! Quality of a cell's results: machine load, cost of the generator, disturbed seconds, and whether
//! the load was in a steady state.

use std::collections::BTreeMap;

use weir_stats::run::{
    Cell, GeneratorCost, LatencySummary, NoisySpan, RoleUsage, STAGE_SCHEDULE_LAG, SeriesPoint,
    Steadiness,
};
use weir_stats::{steady_state, trend};

use super::child::ProcessRole;
use super::environment;
use super::figure_names::QUEUE_FULL;
use super::result::{Measured, MeasuredWindow};
use super::saturation::MachineLoad;

impl Measured<'_> {
    /// Sets the quality fields of `cell`. Returns the machine load, which is needed to find the
    /// saturated role.
    pub(super) fn quality(&self, cell: &mut Cell, window: &MeasuredWindow) -> Option<MachineLoad> {
        let span = (window.from_unix_ns, window.until_unix_ns);
        let cores = environment::cores();
        let load = self.usage.set_machine(cell, span);
        cell.generator = Some(generator(cell, cores)).filter(|cost| !cost.roles.is_empty());
        let produced = self.collected.produced.values();
        let waited: u64 = produced.map(|it| it.queue_full).sum();
        if waited > 0 {
            cell.figures.insert(QUEUE_FULL.to_owned(), waited as f64);
        }
        cell.noisy = merge(&self.disturbed_seconds(cell, window));
        // Response times fall while a backlog is drained.
        if self.plan.consumers.backlog.is_zero() {
            cell.steadiness = steadiness(&cell.series, cell.hold_s);
        }
        cell.notes.extend(quality_notes(cell, cores));
        load
    }

    /// Returns the seconds of the window that were disturbed from outside the system under test,
    /// with the reason.
    fn disturbed_seconds(&self, cell: &Cell, window: &MeasuredWindow) -> Vec<NoisySpan> {
        let limit_us = self.plan.validity.schedule_lag_p99_ms * 1e3;
        let points: Vec<&SeriesPoint> = inside(&cell.series, cell.hold_s).collect();
        // Seconds without deliveries have no p99 and do not count as outliers.
        let timed: Vec<(usize, f64)> = points
            .iter()
            .enumerate()
            .filter_map(|(index, point)| Some((index, point.p99_us?)))
            .collect();
        let p99: Vec<f64> = timed.iter().map(|(_, p99_us)| *p99_us).collect();
        let outliers: BTreeMap<usize, f64> = steady_state::outliers(&p99)
            .into_iter()
            .map(|position| timed[position])
            .collect();
        let mut found = Vec::new();
        for (index, point) in points.iter().enumerate() {
            let until_unix_ns = window.from_unix_ns + (point.t_s * 1e9) as u64;
            let second = (until_unix_ns.saturating_sub(SECOND_NS), until_unix_ns);
            let mut reasons = self.machine_noise(point, second);
            if let Some(lag_us) = point.lag_p99_us.filter(|lag_us| *lag_us > limit_us) {
                let ms = lag_us / 1e3;
                reasons.push(format!("generator behind schedule: p99 {ms:.1} ms"));
            }
            if let Some(p99_us) = outliers.get(&index) {
                reasons.push(format!("p99 {:.1} ms is an outlier", p99_us / 1e3));
            }
            if !reasons.is_empty() {
                found.push(NoisySpan {
                    from_s: (point.t_s - 1.0).max(0.0),
                    until_s: point.t_s,
                    reason: reasons.join(", "),
                });
            }
        }
        found
    }

    fn machine_noise(&self, point: &SeriesPoint, second: (u64, u64)) -> Vec<String> {
        let cores = environment::cores();
        let Some(machine) = self.usage.machine(second) else {
            return Vec::new();
        };
        let mut reasons = Vec::new();
        if machine.steal_share > STEAL_SHARE_NOISY {
            let percent = machine.steal_share * 100.0;
            let text = format!("another guest of the host took {percent:.0} % of the time");
            reasons.push(text);
        }
        let cores_in_run: f64 = point.cpu_cores.values().sum();
        let others = machine.busy_share * cores as f64 - cores_in_run;
        if others > cores as f64 * OTHERS_SHARE_NOISY {
            let text = format!("processes outside the run used {others:.1} of {cores} cores");
            reasons.push(text);
        }
        reasons
    }
}

fn generator(cell: &Cell, cores: u64) -> GeneratorCost {
    let generator_roles = [
        ProcessRole::Produce,
        ProcessRole::ProduceMarked,
        ProcessRole::Clients,
        ProcessRole::Consume,
    ]
    .map(ProcessRole::name);
    let is_generator = |role: &&RoleUsage| generator_roles.contains(&role.role.as_str());
    let roles: Vec<&RoleUsage> = cell.roles.iter().filter(is_generator).collect();
    let busy: f64 = roles.iter().filter_map(|role| role.cpu_cores_mean).sum();
    let records = cell.achieved_records_per_s.unwrap_or(0.0) * cell.hold_s;
    let (producing, receiving) = roles
        .iter()
        .partition::<Vec<&RoleUsage>, _>(|role| role.role.starts_with(ProcessRole::Produce.name()));
    let cpu_us = |roles: &[&RoleUsage]| roles.iter().map(|role| role.cpu_us_total).sum::<u64>();
    let delivered = cell.delivery.as_ref().map_or(0, |it| it.delivered);
    let lag: Option<&LatencySummary> = cell.latency.get(STAGE_SCHEDULE_LAG);
    GeneratorCost {
        roles: roles.iter().map(|role| role.role.clone()).collect(),
        cpu_cores_mean: busy,
        machine_share: busy / cores as f64,
        cpu_us_per_record: per(cpu_us(&producing), records),
        cpu_us_per_delivered: per(cpu_us(&receiving), delivered as f64),
        schedule_lag_p99_us: lag.and_then(|lag| lag.p99_us),
        schedule_lag_p999_us: lag.and_then(|lag| lag.p999_us),
    }
}

/// Returns the CPU time per unit; `None` below 0.1 s of CPU time, which is counted in hundredths of
/// a second.
fn per(cpu_us: u64, count: f64) -> Option<f64> {
    (cpu_us >= 100_000 && count >= 1.0).then(|| cpu_us as f64 / count)
}

/// Merges adjacent seconds with the same reason into one span.
fn merge(seconds: &[NoisySpan]) -> Vec<NoisySpan> {
    let continues = |a: &NoisySpan, b: &NoisySpan| a.until_s >= b.from_s && a.reason == b.reason;
    let spans = seconds.chunk_by(continues).map(|span| NoisySpan {
        until_s: span[span.len() - 1].until_s,
        ..span[0].clone()
    });
    spans.collect()
}

/// Returns the steadiness from the first second of load to the end of the window.
pub(super) fn steadiness(series: &[SeriesPoint], hold_s: f64) -> Option<Steadiness> {
    let seconds: Vec<(f64, f64)> = series
        .iter()
        .filter(|point| point.t_s <= hold_s)
        .filter_map(|point| Some((point.t_s, point.p50_us?)))
        .collect();
    let start_s = seconds.first()?.0 - 1.0;
    let medians: Vec<f64> = seconds.iter().map(|(_, us)| *us).collect();
    if medians.len() < steady_state::VALUES_MIN {
        return None;
    }
    let window = seconds.iter().filter(|(t_s, _)| *t_s > 0.0);
    let drift_share = trend::drift_share(&window.map(|(_, us)| *us).collect::<Vec<_>>());
    let skipped = steady_state::warm_up_len(&medians);
    let steady_s = skipped.map(|skipped| skipped as f64 + start_s);
    let in_time = steady_s.is_some_and(|at_s| at_s <= hold_s * STEADY_BY_SHARE);
    Some(Steadiness {
        warm_up_s: skipped.unwrap_or(medians.len()) as f64,
        is_steady: in_time && drift_share.is_none_or(|share| share.abs() <= DRIFT_SHARE_MAX),
        drift_share,
        method: METHOD.to_owned(),
    })
}

pub(super) fn inside(series: &[SeriesPoint], hold_s: f64) -> impl Iterator<Item = &SeriesPoint> {
    let in_window = move |point: &&SeriesPoint| point.t_s > 0.0 && point.t_s <= hold_s;
    series.iter().filter(in_window)
}

fn quality_notes(cell: &Cell, cores: u64) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(machine) = &cell.machine {
        if machine.steal_share > STEAL_WARN_SHARE {
            let percent = machine.steal_share * 100.0;
            let text = format!("another guest of the host took {percent:.1} % of the time");
            notes.push(text);
        }
        let others = machine.other_processes_cores;
        if others > cores as f64 * OTHER_PROCESSES_WARN_SHARE {
            let text = format!("processes outside the run used {others:.2} of {cores} cores");
            notes.push(text);
        }
    }
    let (noisy, hold_s) = (cell.noisy.iter(), cell.hold_s);
    let noisy_s: f64 = noisy.map(|span| span.until_s - span.from_s).sum();
    if noisy_s > hold_s * NOISY_WARN_SHARE {
        notes.push(format!(
            "{noisy_s:.0} of {hold_s:.0} seconds were disturbed"
        ));
    }
    if let Some(steadiness) = cell.steadiness.as_ref().filter(|it| !it.is_steady) {
        let drift = steadiness.drift_share.unwrap_or(0.0) * 100.0;
        notes.push(format!(
            "the median response time was not steady: {drift:+.0} % over the window"
        ));
    }
    notes
}

const METHOD: &str = "mser of the median response of each second";
const SECOND_NS: u64 = 1_000_000_000;
/// Share of the window by whose end the load must be steady.
const STEADY_BY_SHARE: f64 = 0.25;
const DRIFT_SHARE_MAX: f64 = 0.5;
/// Limit over the whole window.
const STEAL_WARN_SHARE: f64 = 0.01;
/// Limit over the whole window; this process and the SDK client count as other processes.
const OTHER_PROCESSES_WARN_SHARE: f64 = 0.15;
const NOISY_WARN_SHARE: f64 = 0.1;
/// Limit in one second; CPU time is counted in hundredths of a second.
const STEAL_SHARE_NOISY: f64 = 0.05;
const OTHERS_SHARE_NOISY: f64 = 0.3;

#[cfg(test)]
mod tests {
    use super::*;

    fn series(medians_us: &[f64], warm_up_s: f64) -> Vec<SeriesPoint> {
        let points = medians_us.iter().zip(1..);
        let point = |(us, second): (&f64, i32)| SeriesPoint {
            t_s: f64::from(second) - warm_up_s,
            p50_us: Some(*us),
            ..SeriesPoint::default()
        };
        points.map(point).collect()
    }

    #[test]
    fn sufficient_warm_up_is_steady() {
        let medians = [
            9000.0, 4000.0, 2000.0, 1010.0, 1000.0, 990.0, 1000.0, 1020.0, 1000.0, 990.0, 1010.0,
            1000.0,
        ];
        let enough = steadiness(&series(&medians, 4.0), 8.0).unwrap();
        assert!(enough.is_steady, "{enough:?}");
        assert_eq!(enough.warm_up_s, 3.0);
        let short = steadiness(&series(&medians, 0.0), 12.0).unwrap();
        assert!(
            short.is_steady,
            "steady within the first quarter: {short:?}"
        );
        let growing: Vec<f64> = (1..=12).map(|second| 500.0 * f64::from(second)).collect();
        let growing = steadiness(&series(&growing, 4.0), 8.0).unwrap();
        assert!(
            !growing.is_steady && growing.drift_share > Some(0.5),
            "{growing:?}"
        );
        assert_eq!(steadiness(&series(&medians[..4], 0.0), 4.0), None);
    }

    #[test]
    fn adjacent_seconds_with_same_reason_merge() {
        let span = |from_s: f64, until_s: f64, why: &str| NoisySpan {
            from_s,
            until_s,
            reason: why.to_owned(),
        };
        let merged = merge(&[
            span(0.0, 1.0, "a"),
            span(1.0, 2.0, "a"),
            span(2.0, 3.0, "b"),
            span(5.0, 6.0, "b"),
        ]);
        assert_eq!(
            merged,
            [
                span(0.0, 2.0, "a"),
                span(2.0, 3.0, "b"),
                span(5.0, 6.0, "b")
            ]
        );
    }

    #[test]
    fn generator_cost_excludes_the_system_under_test() {
        let role = |name: &str, cpu_us_total| RoleUsage {
            role: name.to_owned(),
            cpu_us_total,
            cpu_cores_mean: Some(cpu_us_total as f64 / 1e7),
            ..RoleUsage::default()
        };
        let cell = Cell {
            hold_s: 10.0,
            achieved_records_per_s: Some(100.0),
            roles: vec![
                role("broker", 9_000_000),
                role("produce", 500_000),
                role("clients", 2_000_000),
            ],
            ..Cell::default()
        };
        let cost = generator(&cell, 2);
        assert_eq!(cost.roles, ["produce", "clients"]);
        assert_eq!(cost.cpu_us_per_record, Some(500.0));
        assert_eq!(cost.cpu_us_per_delivered, None, "nothing was delivered");
        assert!((cost.cpu_cores_mean - 0.25).abs() < 1e-12);
        assert!((cost.machine_share - 0.125).abs() < 1e-12);
    }
}
