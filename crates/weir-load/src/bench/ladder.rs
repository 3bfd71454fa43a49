//! When an architecture does not get the next level.

use std::collections::BTreeMap;

use weir_stats::run::{Cell, CellStatus};

use crate::plan::{Architecture, StopRules};

/// What is known about each architecture so far.
#[derive(Debug, Default)]
pub(super) struct Ladder {
    stopped: BTreeMap<&'static str, String>,
    /// The last cell that was not valid, with no valid one since.
    invalid: BTreeMap<&'static str, u64>,
    /// Of all parts together, at the last level.
    cores_per_client: BTreeMap<&'static str, f64>,
}

impl Ladder {
    /// Why a cell is not worth running, if it is not.
    pub(super) fn skip(
        &self,
        architecture: Architecture,
        clients: u64,
        rules: &StopRules,
        limits: &Limits,
    ) -> Option<String> {
        if let Some(reason) = self.stopped.get(architecture.name()) {
            return Some(reason.clone());
        }
        // The member of a group talks to its coordinator on a connection of its own.
        let connections = match architecture {
            Architecture::Groups => clients * 2,
            Architecture::Standalone | Architecture::Gateway | Architecture::Floor => clients,
        };
        let needed = connections + rules.descriptors_spare;
        if needed > limits.descriptors {
            return Some(format!(
                "{clients} clients need {needed} file descriptors in one process, {} are allowed",
                limits.descriptors
            ));
        }
        let is_kafka = matches!(
            architecture,
            Architecture::Groups | Architecture::Standalone
        );
        if is_kafka && connections > limits.broker_connections {
            return Some(format!(
                "the broker can hold {} connections by its limit of open files",
                limits.broker_connections
            ));
        }
        if connections + PORTS_SPARE > limits.ports {
            return Some(format!(
                "{clients} clients need {connections} local ports towards one address, this machine \
                 has {} (net.ipv4.ip_local_port_range)",
                limits.ports
            ));
        }
        let used = self.cores_per_client.get(architecture.name())?;
        let cores = used * clients as f64;
        (cores > limits.cores as f64 * FAR_BEYOND).then(|| {
            format!(
                "going by the level before, {clients} clients would take {cores:.1} cores, this machine \
                 has {}",
                limits.cores
            )
        })
    }

    /// Learns from a cell that has run, and notes in it whether the level was held.
    pub(super) fn learn(&mut self, architecture: Architecture, cell: &mut Cell, rules: &StopRules) {
        let name = architecture.name();
        let before = match cell.status {
            CellStatus::Invalid { .. } => self.invalid.insert(name, cell.clients),
            _ => {
                self.invalid.remove(name);
                None
            }
        };
        let level = cell.clients;
        let cores: f64 = cell
            .roles
            .iter()
            .filter_map(|role| role.cpu_cores_mean)
            .sum();
        self.cores_per_client
            .insert(name, cores / level.max(1) as f64);
        let again = before
            .map(|before| format!("the instrument failed at {before} and at {level} clients"));
        cell.not_sustained = can_not_hold(cell, rules);
        let beyond = cell.not_sustained.as_ref();
        let reason = beyond.map(|reason| format!("at {level} clients {reason}"));
        if let Some(reason) = reason.or(again) {
            self.stopped.insert(name, reason + &saturated(cell));
        }
    }
}

/// What the machine allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Open files of one process.
    pub(super) descriptors: u64,
    /// Connections the broker can hold; `u64::MAX` if it is not ours.
    pub(super) broker_connections: u64,
    /// Local ports for connections to one address.
    pub(super) ports: u64,
    /// Logical processors.
    pub(super) cores: u64,
}

fn can_not_hold(cell: &Cell, rules: &StopRules) -> Option<String> {
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
    // One record at the edge of the window may fall on either side of it.
    if (written * cell.hold_s) + 1.0 < due * cell.hold_s * ACHIEVED_SHARE_MIN {
        return Some(format!(
            "the broker took {written:.1} of {due} records a second"
        ));
    }
    is_growing(cell).then(|| "ever later: the backlog grows".to_owned())
}

/// Which part had nothing left, to follow the reason.
fn saturated(cell: &Cell) -> String {
    match (&cell.saturated_role, &cell.saturated_why) {
        (Some(role), Some(why)) => format!("; {role} saturated: {why}"),
        _ => "; no part saturated".to_owned(),
    }
}

/// Whether the last third of the window is far later than the first: twice, and by 100 ms.
fn is_growing(cell: &Cell) -> bool {
    let medians: Vec<f64> = cell
        .series
        .iter()
        .filter(|point| point.t_s > 0.0 && point.t_s <= cell.hold_s)
        .filter_map(|point| point.p50_us)
        .collect();
    let third = medians.len() / 3;
    if third == 0 {
        return false;
    }
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (first, last) = (
        mean(&medians[..third]),
        mean(&medians[medians.len() - third..]),
    );
    last > 2.0 * first && last - first > 100_000.0
}

const ACHIEVED_SHARE_MIN: f64 = 0.99;
/// Of all there are, some belong to others.
const PORTS_SPARE: u64 = 256;
/// Cost need not grow in proportion; a level is only left out when it is out of the question.
const FAR_BEYOND: f64 = 2.5;

#[cfg(test)]
mod tests {
    use weir_stats::run::{Delivery, LatencySummary, Point, RoleUsage, STAGE_RESPONSE};

    use super::*;

    const LIMITS: Limits = Limits {
        descriptors: 20_000,
        broker_connections: 15_000,
        ports: 28_000,
        cores: 4,
    };

    fn cell(mean_ms: f64, lost: u64, medians_ms: &[f64]) -> Cell {
        let summary = LatencySummary {
            mean_us: Some(mean_ms * 1e3),
            ..LatencySummary::default()
        };
        let points = medians_ms.iter().zip(1..).map(|(ms, t_s)| Point {
            t_s: f64::from(t_s),
            p50_us: Some(ms * 1e3),
            ..Point::default()
        });
        Cell {
            clients: 10,
            hold_s: 60.0,
            latency: BTreeMap::from([(STAGE_RESPONSE.to_owned(), summary)]),
            delivery: Some(Delivery {
                expected: 1000,
                lost,
                ..Delivery::default()
            }),
            series: points.collect(),
            offered_records_per_s: 100.0,
            achieved_records_per_s: Some(99.0),
            ..Cell::default()
        }
    }

    fn after(cell: &Cell) -> Option<String> {
        let (rules, mut ladder) = (StopRules::default(), Ladder::default());
        let mut cell = cell.clone();
        ladder.learn(Architecture::Standalone, &mut cell, &rules);
        let limits = LIMITS;
        assert_eq!(
            ladder.skip(Architecture::Gateway, 20, &rules, &limits),
            None
        );
        ladder.skip(Architecture::Standalone, 20, &rules, &limits)
    }

    #[test]
    fn an_architecture_that_holds_goes_on() {
        assert_eq!(after(&cell(50.0, 10, &[10.0, 11.0, 12.0, 60.0])), None);
        assert_eq!(after(&Cell::default()), None);
    }

    #[test]
    fn one_that_does_not_is_stopped_with_the_reason() {
        let late = after(&cell(1500.0, 0, &[])).unwrap();
        assert_eq!(
            late,
            "at 10 clients mean response 1500 ms, limit 1000 ms; no part saturated"
        );
        let lossy = after(&cell(5.0, 50, &[])).unwrap();
        assert!(lossy.contains(" 5.0 % lost, limit 1 %"), "{lossy}");
        let growing = after(&cell(300.0, 0, &[10.0, 100.0, 400.0, 700.0])).unwrap();
        assert!(growing.contains("the backlog grows"), "{growing}");
        let slow = after(&Cell {
            achieved_records_per_s: Some(60.0),
            saturated_role: Some("broker".to_owned()),
            saturated_why: Some("thread io-0 had 98 % of a core".to_owned()),
            ..cell(5.0, 0, &[])
        });
        assert_eq!(
            slow.unwrap(),
            "at 10 clients the broker took 60.0 of 100 records a second; broker saturated: thread \
             io-0 had 98 % of a core"
        );
    }

    #[test]
    fn the_cell_itself_tells_whether_it_was_held() {
        let (rules, mut ladder) = (StopRules::default(), Ladder::default());
        let mut held = cell(5.0, 0, &[]);
        ladder.learn(Architecture::Floor, &mut held, &rules);
        assert!(held.is_sustained());
        let mut late = cell(1500.0, 0, &[]);
        ladder.learn(Architecture::Floor, &mut late, &rules);
        assert!(late.is_valid() && !late.is_sustained());
    }

    #[test]
    fn one_invalid_level_is_passed_over_but_not_two() {
        let (rules, mut ladder) = (StopRules::default(), Ladder::default());
        let limits = LIMITS;
        let valid = cell(5.0, 0, &[]);
        let invalid = Cell {
            status: CellStatus::Invalid {
                reasons: vec!["saturated".to_owned()],
            },
            ..valid.clone()
        };
        let mut skip_after = |cell: &Cell| {
            ladder.learn(Architecture::Floor, &mut cell.clone(), &rules);
            ladder.skip(Architecture::Floor, 20, &rules, &limits)
        };
        assert_eq!(skip_after(&invalid), None);
        assert_eq!(skip_after(&valid), None);
        assert_eq!(skip_after(&invalid), None);
        assert_eq!(
            skip_after(&invalid).unwrap(),
            "the instrument failed at 10 and at 10 clients; no part saturated"
        );
    }

    #[test]
    fn what_the_machine_does_not_have_bounds_the_level() {
        let (rules, mut ladder) = (StopRules::default(), Ladder::default());
        let skip = |ladder: &Ladder, clients, limits: Limits| {
            ladder.skip(Architecture::Gateway, clients, &rules, &limits)
        };
        let few_ports = Limits {
            ports: 10_000,
            ..LIMITS
        };
        let ports = skip(&ladder, 9_900, few_ports).unwrap();
        assert!(ports.contains("need 9900 local ports"), "{ports}");
        assert_eq!(skip(&ladder, 9_000, few_ports), None);
        let role = RoleUsage {
            cpu_cores_mean: Some(0.5),
            ..RoleUsage::default()
        };
        let mut level = Cell {
            clients: 1000,
            roles: vec![role.clone(), role],
            ..cell(5.0, 0, &[])
        };
        ladder.learn(Architecture::Gateway, &mut level, &rules);
        assert_eq!(skip(&ladder, 4_000, LIMITS), None, "worth a try");
        let far = skip(&ladder, 12_000, LIMITS).unwrap();
        assert!(far.contains("12000 clients would take 12.0 cores"), "{far}");
        let groups = ladder.skip(Architecture::Groups, 10_000, &rules, &LIMITS);
        assert!(groups.unwrap().contains("need 20512 file descriptors"));
    }

    #[test]
    fn descriptors_bound_the_level() {
        let (rules, ladder) = (StopRules::default(), Ladder::default());
        let limits = LIMITS;
        let floor = ladder
            .skip(Architecture::Floor, 19_600, &rules, &limits)
            .unwrap();
        assert!(
            floor.starts_with("19600 clients need 20112 file descriptors"),
            "{floor}"
        );
        let standalone = ladder
            .skip(Architecture::Standalone, 16_000, &rules, &limits)
            .unwrap();
        assert!(standalone.contains("broker can hold 15000"), "{standalone}");
        assert_eq!(
            ladder.skip(Architecture::Floor, 16_000, &rules, &limits),
            None
        );
    }
}
