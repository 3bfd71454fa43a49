//! Decides which points of a plan to skip: those beyond a failed point.

use std::collections::BTreeMap;

use weir_engine::inventory::InventoryRole;
use weir_engine::limits::local_ports;
use weir_lab::Lab;
use weir_stats::run::{Cell, CellStatus};

use super::{environment, quality, verdict};
use crate::experiment::RunContext;
use crate::plan::{Architecture, PlanPoint, StopRules, Subject};
use weir_load::clients::descriptors_allowed;

/// Results of the points so far, which determine the points to skip.
#[derive(Debug, Default)]
pub(super) struct LevelHistory {
    subjects: BTreeMap<String, SubjectHistory>,
    /// `true` if points differ in their rate as well.
    is_grid: bool,
}

#[derive(Debug, Default)]
struct SubjectHistory {
    /// Points that were not sustained, with the reason.
    failed: Vec<(PlanPoint, String)>,
    /// Last invalid cell, if no valid cell followed.
    invalid: Option<PlanPoint>,
    /// Cores used by all processes at each point.
    cores: Vec<(PlanPoint, f64)>,
}

impl LevelHistory {
    pub(super) fn new(is_grid: bool) -> Self {
        Self {
            is_grid,
            ..Self::default()
        }
    }

    /// Returns the reason to skip a point of a subject; `None` if it must be measured.
    pub(super) fn skip(
        &self,
        subject: &Subject<'_>,
        point: PlanPoint,
        rules: &StopRules,
        limits: &HostLimits,
    ) -> Option<String> {
        let history = self.subjects.get(&subject.name());
        let failed = history.and_then(|history| {
            let mut failed = history.failed.iter();
            failed.find(|(failed, _)| point.is_beyond(failed))
        });
        if let Some((_, reason)) = failed {
            return Some(reason.clone());
        }
        too_many_connections(subject.architecture, point.clients, rules, limits)
            .or_else(|| self.too_many_cores(history?, point, limits))
    }

    /// Returns the reason if the machine has too few cores for a point. Extrapolates from the
    /// largest measured point below it.
    fn too_many_cores(
        &self,
        history: &SubjectHistory,
        point: PlanPoint,
        limits: &HostLimits,
    ) -> Option<String> {
        let load = |point: &PlanPoint| point.clients as f64 * point.rate_per_s;
        let within = history.cores.iter().filter(|(it, _)| point.is_beyond(it));
        let (nearest, cores) = within.max_by(|a, b| load(&a.0).total_cmp(&load(&b.0)))?;
        let cores = cores * load(&point) / load(nearest);
        (cores > limits.cores as f64 * CORES_EXCESS_MAX).then(|| {
            format!(
                "extrapolated from {}, {} would need {cores:.1} cores, this machine has {}",
                match self.is_grid {
                    true => self.describe_point(nearest),
                    false => "the previous level".to_owned(),
                },
                self.describe_point(&point),
                limits.cores
            )
        })
    }

    /// Stores the result of a cell, and sets its `not_sustained` if it did not sustain the load.
    pub(super) fn record_result(
        &mut self,
        subject: &Subject<'_>,
        point: PlanPoint,
        cell: &mut Cell,
        rules: &StopRules,
    ) {
        let description = self.describe_point(&point);
        let describe_before = |before: PlanPoint| match self.is_grid {
            true => self.describe_point(&before),
            false => before.clients.to_string(),
        };
        let name = subject.name();
        let before = self.subjects.get(&name).and_then(|history| history.invalid);
        let before = before
            .filter(|before| point.is_beyond(before))
            .map(describe_before);
        let history = self.subjects.entry(name).or_default();
        history.invalid = match cell.status {
            CellStatus::Invalid { .. } => Some(point),
            _ => None,
        };
        let roles = cell.roles.iter();
        let cores = roles.filter_map(|role| role.cpu_cores_mean).sum();
        history.cores.push((point, cores));
        let again = before
            .filter(|_| history.invalid.is_some())
            .map(|before| format!("the cells at {before} and at {description} were invalid"));
        cell.not_sustained = not_sustained_reason(cell, rules, ACHIEVED_SHARE_MIN);
        let beyond = cell.not_sustained.as_ref();
        let reason = beyond.map(|reason| format!("at {description}: {reason}"));
        if let Some(reason) = reason.or(again) {
            history.failed.push((point, reason + &saturated(cell)));
        }
    }

    fn describe_point(&self, point: &PlanPoint) -> String {
        let clients = verdict::clients(point.clients);
        match self.is_grid {
            true => format!("{clients} and {} records/s", point.rate_per_s),
            false => clients,
        }
    }
}

/// Returns the reason if this machine or the broker does not allow the connections of `clients`
/// clients.
pub(super) fn too_many_connections(
    architecture: Architecture,
    clients: u64,
    rules: &StopRules,
    limits: &HostLimits,
) -> Option<String> {
    // Each group member has a separate connection to its group coordinator.
    let connections = match architecture {
        Architecture::Groups => clients * 2,
        Architecture::Standalone | Architecture::Gateway | Architecture::Floor => clients,
    };
    let needed = connections + rules.descriptors_spare;
    let is_kafka = matches!(
        architecture,
        Architecture::Groups | Architecture::Standalone
    );
    // Processes on other machines check the limits there. A gateway has a connection per client.
    let is_elsewhere = match is_kafka {
        true => limits.consumers_elsewhere,
        false => limits.clients_elsewhere,
    };
    if needed > limits.descriptors && !(is_kafka && is_elsewhere) {
        return Some(format!(
            "{clients} clients need {needed} file descriptors in one process, {} are allowed",
            limits.descriptors
        ));
    }
    if is_kafka && connections > limits.broker_connections {
        return Some(format!(
            "the broker allows {} connections by its limit of open files",
            limits.broker_connections
        ));
    }
    (!is_elsewhere && connections + PORTS_SPARE > limits.ports).then(|| {
        format!(
            "{clients} clients need {connections} local ports for one address, this machine \
             has {} (net.ipv4.ip_local_port_range)",
            limits.ports
        )
    })
}

/// Limits of the machines and of the broker.
#[derive(Debug, Clone, Copy)]
pub(super) struct HostLimits {
    /// File descriptors of one process.
    pub(super) descriptors: u64,
    /// Connections that the broker allows; `u64::MAX` if it was not started for the run.
    pub(super) broker_connections: u64,
    /// Local ports for connections to one address.
    pub(super) ports: u64,
    /// Cores of this machine; `u64::MAX` if roles run on other machines.
    pub(super) cores: u64,
    /// `true` if the clients of a gateway or floor are on other machines.
    pub(super) clients_elsewhere: bool,
    /// `true` if plain consumers are on other machines.
    pub(super) consumers_elsewhere: bool,
}

impl HostLimits {
    pub(super) fn of(context: RunContext<'_>) -> Self {
        let lab = context.broker.lab.as_ref();
        let machines = context.run_dir.options.machines.as_ref();
        let is_elsewhere =
            |role| machines.is_some_and(|machines| machines.with(role).next().is_some());
        Self {
            clients_elsewhere: is_elsewhere(InventoryRole::Clients),
            consumers_elsewhere: is_elsewhere(InventoryRole::Consumers),
            descriptors: descriptors_allowed(),
            broker_connections: lab.map_or(u64::MAX, Lab::max_clients_hint),
            ports: local_ports(),
            // Processes on other machines do not use the cores of this one.
            cores: match machines {
                Some(_) => u64::MAX,
                None => environment::cores(),
            },
        }
    }
}

/// Returns the reason why the system under test did not sustain the load of a cell, if it did not.
/// The broker must have accepted `achieved_share_min` of the records.
pub(super) fn not_sustained_reason(
    cell: &Cell,
    rules: &StopRules,
    achieved_share_min: f64,
) -> Option<String> {
    let mean_ms = cell.response()?.mean_us? / 1e3;
    if mean_ms > rules.response_mean_ms {
        let limit = rules.response_mean_ms;
        return Some(format!("mean response {mean_ms:.0} ms, limit {limit} ms"));
    }
    let delivery = cell.delivery.as_ref()?;
    let lost_share = delivery.lost as f64 / delivery.expected.max(1) as f64;
    if lost_share > rules.lost_share {
        let (percent, limit) = (lost_share * 100.0, rules.lost_share * 100.0);
        return Some(format!("{percent:.1} % lost, limit {limit} %"));
    }
    let written = cell.achieved_records_per_s?;
    let due = cell.offered_records_per_s;
    // A record at the edge of the window may fall on either side of it.
    if (written * cell.hold_s) + 1.0 < due * cell.hold_s * achieved_share_min {
        let text = format!("the broker accepted {written:.1} of {due} records/s");
        return Some(text);
    }
    is_growing(cell, rules).then(|| "response time keeps rising: the backlog grows".to_owned())
}

/// Returns the saturated role as a clause to append to the reason.
pub(super) fn saturated(cell: &Cell) -> String {
    match (&cell.saturated_role, &cell.saturation_reason) {
        (Some(role), Some(reason)) => format!("; {role} saturated: {reason}"),
        _ => "; no role saturated".to_owned(),
    }
}

/// Returns `true` if the median in the last third of the window exceeds twice that of the first
/// third, and by more than 100 ms or a quarter of the response limit, whichever is lower.
fn is_growing(cell: &Cell, rules: &StopRules) -> bool {
    let seconds = quality::inside(&cell.series, cell.hold_s);
    let medians: Vec<f64> = seconds.filter_map(|point| point.p50_us).collect();
    let third = medians.len() / 3;
    if third == 0 {
        return false;
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let first = mean(&medians[..third]);
    let last = mean(&medians[medians.len() - third..]);
    let far_us = (rules.response_mean_ms * 250.0).min(100_000.0);
    last > 2.0 * first && last - first > far_us
}

const ACHIEVED_SHARE_MIN: f64 = 0.99;
/// Local ports reserved for other connections.
pub(super) const PORTS_SPARE: u64 = 256;
/// Maximum ratio of extrapolated cores to the cores of the machine; points above it are skipped.
/// The actual cost may grow more slowly than the load, so smaller ratios are measured.
const CORES_EXCESS_MAX: f64 = 2.5;

#[cfg(test)]
mod tests {
    use weir_stats::run::{
        DeliveryTotals, LatencySummary, RoleUsage, STAGE_RESPONSE, SeriesPoint as Second,
    };

    use super::*;

    const LIMITS: HostLimits = HostLimits {
        descriptors: 20_000,
        broker_connections: 15_000,
        ports: 28_000,
        cores: 4,
        clients_elsewhere: false,
        consumers_elsewhere: false,
    };

    fn cell(mean_ms: f64, lost: u64, medians_ms: &[f64]) -> Cell {
        let summary = LatencySummary {
            mean_us: Some(mean_ms * 1e3),
            ..LatencySummary::default()
        };
        let points = medians_ms.iter().zip(1..).map(|(ms, t_s)| Second {
            t_s: f64::from(t_s),
            p50_us: Some(ms * 1e3),
            ..Second::default()
        });
        Cell {
            clients: 10,
            hold_s: 60.0,
            latency: BTreeMap::from([(STAGE_RESPONSE.to_owned(), summary)]),
            delivery: Some(DeliveryTotals {
                expected: 1000,
                lost,
                ..DeliveryTotals::default()
            }),
            series: points.collect(),
            offered_records_per_s: 100.0,
            achieved_records_per_s: Some(99.0),
            ..Cell::default()
        }
    }

    fn subject(architecture: Architecture) -> Subject<'static> {
        Subject {
            architecture,
            variant: None,
        }
    }

    fn at(clients: u64) -> PlanPoint {
        PlanPoint {
            clients,
            rate_per_s: 100.0,
        }
    }

    /// History with fixed rules.
    #[derive(Default)]
    struct TestHistory(LevelHistory);

    impl TestHistory {
        fn record(&mut self, architecture: Architecture, cell: &mut Cell) {
            let point = at(cell.clients);
            self.0
                .record_result(&subject(architecture), point, cell, &StopRules::default());
        }

        fn skip(
            &self,
            architecture: Architecture,
            clients: u64,
            limits: HostLimits,
        ) -> Option<String> {
            let rules = StopRules::default();
            self.0
                .skip(&subject(architecture), at(clients), &rules, &limits)
        }
    }

    fn after(cell: &Cell) -> Option<String> {
        let mut history = TestHistory::default();
        history.record(Architecture::Standalone, &mut cell.clone());
        assert_eq!(history.skip(Architecture::Gateway, 20, LIMITS), None);
        history.skip(Architecture::Standalone, 20, LIMITS)
    }

    #[test]
    fn sustained_architecture_continues() {
        assert_eq!(after(&cell(50.0, 10, &[10.0, 11.0, 12.0, 60.0])), None);
        assert_eq!(after(&Cell::default()), None);
    }

    #[test]
    fn failed_architecture_stops_with_reason() {
        let late = after(&cell(1500.0, 0, &[])).unwrap();
        assert_eq!(
            late,
            "at 10 clients: mean response 1500 ms, limit 1000 ms; no role saturated"
        );
        let lossy = after(&cell(5.0, 50, &[])).unwrap();
        assert!(lossy.contains(" 5.0 % lost, limit 1 %"), "{lossy}");
        let growing = after(&cell(300.0, 0, &[10.0, 100.0, 400.0, 700.0])).unwrap();
        assert!(growing.contains("the backlog grows"), "{growing}");
        let slow = after(&Cell {
            achieved_records_per_s: Some(60.0),
            saturated_role: Some("broker".to_owned()),
            saturation_reason: Some("thread io-0 used 98 % of a core".to_owned()),
            ..cell(5.0, 0, &[])
        });
        assert_eq!(
            slow.unwrap(),
            "at 10 clients: the broker accepted 60.0 of 100 records/s; broker saturated: thread \
             io-0 used 98 % of a core"
        );
    }

    #[test]
    fn cell_records_if_load_was_sustained() {
        let mut history = TestHistory::default();
        let mut sustained = cell(5.0, 0, &[]);
        history.record(Architecture::Floor, &mut sustained);
        assert!(sustained.is_sustained());
        let mut late = cell(1500.0, 0, &[]);
        history.record(Architecture::Floor, &mut late);
        assert!(late.is_valid() && !late.is_sustained());
    }

    #[test]
    fn two_invalid_levels_in_a_row_stop() {
        let mut history = TestHistory::default();
        let valid = cell(5.0, 0, &[]);
        let invalid = Cell {
            status: CellStatus::Invalid {
                reasons: vec!["saturated".to_owned()],
            },
            ..valid.clone()
        };
        let mut skip_after = |cell: &Cell| {
            history.record(Architecture::Floor, &mut cell.clone());
            history.skip(Architecture::Floor, 20, LIMITS)
        };
        assert_eq!(skip_after(&invalid), None);
        assert_eq!(skip_after(&valid), None);
        assert_eq!(skip_after(&invalid), None);
        assert_eq!(
            skip_after(&invalid).unwrap(),
            "the cells at 10 and at 10 clients were invalid; no role saturated"
        );
    }

    #[test]
    fn machine_limits_bound_the_level() {
        let mut history = TestHistory::default();
        let few_ports = HostLimits {
            ports: 10_000,
            ..LIMITS
        };
        let ports = history.skip(Architecture::Gateway, 9_900, few_ports);
        let ports = ports.unwrap();
        assert!(ports.contains("need 9900 local ports"), "{ports}");
        assert_eq!(history.skip(Architecture::Gateway, 9_000, few_ports), None);
        let role = RoleUsage {
            cpu_cores_mean: Some(0.5),
            ..RoleUsage::default()
        };
        let mut level = Cell {
            clients: 1000,
            roles: vec![role.clone(), role],
            ..cell(5.0, 0, &[])
        };
        history.record(Architecture::Gateway, &mut level);
        let skip = |clients| history.skip(Architecture::Gateway, clients, LIMITS);
        assert_eq!(skip(4_000), None, "within the allowed excess");
        let far = skip(12_000).unwrap();
        assert!(far.contains("12000 clients would need 12.0 cores"), "{far}");
        let groups = history.skip(Architecture::Groups, 10_000, LIMITS);
        assert!(groups.unwrap().contains("need 20512 file descriptors"));
    }

    #[test]
    fn descriptors_bound_the_level() {
        let history = TestHistory::default();
        let floor = history.skip(Architecture::Floor, 19_600, LIMITS).unwrap();
        assert!(
            floor.starts_with("19600 clients need 20112 file descriptors"),
            "{floor}"
        );
        let standalone = history.skip(Architecture::Standalone, 16_000, LIMITS);
        assert!(standalone.unwrap().contains("broker allows 15000"));
        assert_eq!(history.skip(Architecture::Floor, 16_000, LIMITS), None);
        let elsewhere = HostLimits {
            consumers_elsewhere: true,
            broker_connections: u64::MAX,
            ..LIMITS
        };
        let standalone = |limits| history.skip(Architecture::Standalone, 30_000, limits);
        assert_eq!(standalone(elsewhere), None);
        assert!(standalone(LIMITS).is_some());
    }

    #[test]
    fn grid_points_beyond_a_failed_point_are_skipped() {
        let gateway = subject(Architecture::Gateway);
        let rules = StopRules {
            response_mean_ms: 100.0,
            ..StopRules::default()
        };
        let mut history = LevelHistory::new(true);
        let point = |clients, rate_per_s| PlanPoint {
            clients,
            rate_per_s,
        };
        let run = |history: &mut LevelHistory, at: PlanPoint, mean_ms| {
            history.record_result(&gateway, at, &mut cell(mean_ms, 0, &[]), &rules);
        };
        let skip = |history: &LevelHistory, at| history.skip(&gateway, at, &rules, &LIMITS);
        run(&mut history, point(4000, 2000.0), 30.0);
        run(&mut history, point(4000, 4000.0), 235.0);
        let reason = "at 4000 clients and 4000 records/s: mean response 235 ms, limit 100 ms; \
                      no role saturated";
        for beyond in [
            point(4000, 4000.0),
            point(6000, 4000.0),
            point(4000, 5000.0),
            point(8000, 9000.0),
        ] {
            assert_eq!(skip(&history, beyond).as_deref(), Some(reason));
        }
        for other in [point(2000, 8000.0), point(9000, 2000.0)] {
            assert_eq!(skip(&history, other), None);
        }
        let other = Subject {
            architecture: Architecture::Floor,
            variant: None,
        };
        assert_eq!(
            history.skip(&other, point(6000, 6000.0), &rules, &LIMITS),
            None
        );
    }

    #[test]
    fn lower_limits_allow_less_growth() {
        let rules = |response_mean_ms| StopRules {
            response_mean_ms,
            ..StopRules::default()
        };
        let creeping = cell(40.0, 0, &[10.0, 20.0, 50.0]);
        assert!(is_growing(&creeping, &rules(100.0)) && !is_growing(&creeping, &rules(1000.0)));
    }
}
