//! Finds the role that limited a cell.

use weir_stats::run::{Cell, RoleUsage};

/// Saturated role, and the measurement that shows it.
type Saturation = (String, String);

#[derive(Debug, Clone, Copy)]
pub(super) struct MachineLoad {
    /// Share of all cores that was busy, including processes outside the run.
    pub(super) busy_share: f64,
    pub(super) cores: u64,
}

impl MachineLoad {
    /// Returns the busy cores that no role of the run used.
    pub(super) fn used_by_others(&self, roles: &[RoleUsage]) -> f64 {
        let in_run: f64 = roles.iter().filter_map(|role| role.cpu_cores_mean).sum();
        (self.busy_share * self.cores as f64 - in_run).max(0.0)
    }
}

pub(super) fn set(cell: &mut Cell, machine: Option<MachineLoad>, receiver: Option<(&str, f64)>) {
    (cell.saturated_role, cell.saturation_reason) = find(&cell.roles, machine, receiver).unzip();
}

/// Returns the saturated role. A receiver with a busy event loop comes first, because it is part of
/// the benchmarking tool. A thread that uses a whole core follows, then a fully used machine, which
/// is attributed to the role that uses most of it.
fn find(
    roles: &[RoleUsage],
    machine: Option<MachineLoad>,
    receiver: Option<(&str, f64)>,
) -> Option<Saturation> {
    receiver
        .and_then(|(role, busy_share)| event_loop(role, busy_share))
        .or_else(|| thread(roles))
        .or_else(|| full_machine(roles, machine?))
}

fn event_loop(role: &str, busy_share: f64) -> Option<Saturation> {
    let percent = busy_share * 100.0;
    let reason = format!("event loop was busy {percent:.0} % of the time");
    (busy_share > LOOP_SHARE).then(|| (role.to_owned(), reason))
}

fn thread(roles: &[RoleUsage]) -> Option<Saturation> {
    let threads = roles.iter().filter_map(|role| {
        let cores = role.busiest_thread_cores?;
        Some((role, role.busiest_thread.as_deref()?, cores))
    });
    let (role, name, cores) = threads.max_by(|a, b| a.2.total_cmp(&b.2))?;
    let reason = format!("thread {name} used {:.0} % of a core", cores * 100.0);
    (cores > THREAD_CORES).then(|| (role.role.clone(), reason))
}

fn full_machine(roles: &[RoleUsage], machine: MachineLoad) -> Option<Saturation> {
    if machine.busy_share <= MACHINE_SHARE {
        return None;
    }
    let used = |role: &RoleUsage| role.cpu_cores_mean.unwrap_or(0.0);
    let largest = roles.iter().max_by(|a, b| used(a).total_cmp(&used(b)))?;
    let others = machine.used_by_others(roles);
    let (cores, percent) = (machine.cores, machine.busy_share * 100.0);
    Some(match used(largest) {
        used if others > used => {
            let reason = format!("processes outside the run used {others:.2} of {cores} cores");
            (Cell::OTHER_PROCESSES.to_owned(), reason)
        }
        used => {
            let reason =
                format!("used {used:.2} of {cores} cores; the machine was {percent:.0} % busy");
            (largest.role.clone(), reason)
        }
    })
}

const LOOP_SHARE: f64 = 0.9;
const THREAD_CORES: f64 = 0.9;
const MACHINE_SHARE: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;

    fn role(name: &str, cores: f64, thread: &str, thread_cores: f64) -> RoleUsage {
        RoleUsage {
            role: name.to_owned(),
            cpu_cores_mean: Some(cores),
            busiest_thread: Some(thread.to_owned()),
            busiest_thread_cores: Some(thread_cores),
            ..RoleUsage::default()
        }
    }

    fn load(busy_share: f64) -> Option<MachineLoad> {
        Some(MachineLoad {
            busy_share,
            cores: 4,
        })
    }

    fn role_and_reason(found: Option<Saturation>) -> (String, String) {
        found.expect("something was saturated")
    }

    #[test]
    fn spare_capacity_means_no_saturation() {
        let roles = [role("broker", 1.2, "network-0", 0.6)];
        assert_eq!(find(&roles, load(0.7), Some(("consume", 0.5))), None);
        assert_eq!(find(&roles, None, None), None);
        assert_eq!(find(&[], load(1.0), None), None);
    }

    #[test]
    fn busy_thread_saturates_its_role() {
        let roles = [
            role("broker", 1.5, "network-0", 0.97),
            role("gateway", 0.9, "shard-0", 0.88),
        ];
        let (name, reason) = role_and_reason(find(&roles, load(0.5), Some(("consume", 0.3))));
        assert_eq!(name, "broker");
        assert_eq!(reason, "thread network-0 used 97 % of a core");
    }

    #[test]
    fn full_machine_names_its_largest_role() {
        let roles = [
            role("broker", 2.9, "network-0", 0.7),
            role("consume", 0.8, "main", 0.8),
        ];
        let (name, reason) = role_and_reason(find(&roles, load(0.98), Some(("consume", 0.8))));
        assert_eq!(name, "broker");
        assert_eq!(reason, "used 2.90 of 4 cores; the machine was 98 % busy");
    }

    #[test]
    fn machine_filled_by_others_names_no_role() {
        let roles = [role("broker", 0.3, "network-0", 0.1)];
        let (name, reason) = role_and_reason(find(&roles, load(1.0), None));
        assert_eq!(
            (name.as_str(), reason.as_str()),
            (
                "other_processes",
                "processes outside the run used 3.70 of 4 cores"
            )
        );
    }

    #[test]
    fn busy_receiver_comes_first() {
        let roles = [role("broker", 2.0, "network-0", 0.99)];
        let (name, reason) = role_and_reason(find(&roles, load(0.99), Some(("consume", 0.97))));
        assert_eq!(
            (name.as_str(), reason.as_str()),
            ("consume", "event loop was busy 97 % of the time")
        );
    }
}
