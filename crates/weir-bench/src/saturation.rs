//! Which part limited a cell, and what shows it.

use weir_stats::run::RoleUsage;

/// The verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Saturation {
    pub(super) role: String,
    /// The figure that shows it.
    pub(super) why: String,
}

/// The machine inside the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct MachineLoad {
    /// Share of its cores that was busy, whoever used them.
    pub(super) busy_share: f64,
    pub(super) cores: u64,
}

impl MachineLoad {
    /// Cores that were busy for none of the parts.
    pub(super) fn used_by_others(&self, roles: &[RoleUsage]) -> f64 {
        let parts: f64 = roles.iter().filter_map(|role| role.cpu_cores_mean).sum();
        (self.busy_share * self.cores as f64 - parts).max(0.0)
    }
}

/// Finds the part that had nothing left. A receiver whose event loop is always busy comes first: what
/// waits there is the instrument's. Then a thread that has a core to itself, then a full machine, which
/// the part that takes most of it has filled.
pub(super) fn find(
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
    (busy_share > LOOP_SHARE).then(|| Saturation {
        role: role.to_owned(),
        why: format!(
            "its event loop was busy {:.0} % of the time",
            busy_share * 100.0
        ),
    })
}

fn thread(roles: &[RoleUsage]) -> Option<Saturation> {
    let threads = roles.iter().filter_map(|role| {
        let cores = role.busiest_thread_cores?;
        Some((role, role.busiest_thread.as_deref()?, cores))
    });
    let (role, name, cores) = threads.max_by(|a, b| a.2.total_cmp(&b.2))?;
    (cores > THREAD_CORES).then(|| Saturation {
        role: role.role.clone(),
        why: format!("thread {name} had {:.0} % of a core", cores * 100.0),
    })
}

fn full_machine(roles: &[RoleUsage], machine: MachineLoad) -> Option<Saturation> {
    if machine.busy_share <= MACHINE_SHARE {
        return None;
    }
    let used = |role: &RoleUsage| role.cpu_cores_mean.unwrap_or(0.0);
    let largest = roles.iter().max_by(|a, b| used(a).total_cmp(&used(b)))?;
    let others = machine.used_by_others(roles);
    if others > used(largest) {
        return Some(Saturation {
            role: OTHERS.to_owned(),
            why: format!(
                "processes outside the run took {others:.2} of {} cores",
                machine.cores
            ),
        });
    }
    Some(Saturation {
        role: largest.role.clone(),
        why: format!(
            "it took {:.2} of {} cores, all parts together {:.0} % of the machine",
            used(largest),
            machine.cores,
            machine.busy_share * 100.0
        ),
    })
}

/// Stands for a part where the machine was full of something else.
const OTHERS: &str = "others";
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

    fn told(found: Option<Saturation>) -> (String, String) {
        let found = found.expect("something was saturated");
        (found.role, found.why)
    }

    #[test]
    fn nothing_is_named_while_all_have_room() {
        let roles = [role("broker", 1.2, "network-0", 0.6)];
        assert_eq!(find(&roles, load(0.7), Some(("consume", 0.5))), None);
        assert_eq!(find(&roles, None, None), None);
        assert_eq!(find(&[], load(1.0), None), None);
    }

    #[test]
    fn one_thread_without_room_names_its_part_on_an_idle_machine() {
        let roles = [
            role("broker", 1.5, "network-0", 0.97),
            role("gateway", 0.9, "shard-0", 0.88),
        ];
        let (name, why) = told(find(&roles, load(0.5), Some(("consume", 0.3))));
        assert_eq!(name, "broker");
        assert_eq!(why, "thread network-0 had 97 % of a core");
    }

    #[test]
    fn a_full_machine_names_who_takes_most() {
        let roles = [
            role("broker", 2.9, "network-0", 0.7),
            role("consume", 0.8, "main", 0.8),
        ];
        let (name, why) = told(find(&roles, load(0.98), Some(("consume", 0.8))));
        assert_eq!(name, "broker");
        assert_eq!(
            why,
            "it took 2.90 of 4 cores, all parts together 98 % of the machine"
        );
    }

    #[test]
    fn a_machine_that_others_fill_is_not_blamed_on_a_part() {
        let roles = [role("broker", 0.3, "network-0", 0.1)];
        let (name, why) = told(find(&roles, load(1.0), None));
        assert_eq!(
            (name.as_str(), why.as_str()),
            ("others", "processes outside the run took 3.70 of 4 cores")
        );
    }

    #[test]
    fn a_receiver_at_its_end_is_the_instrument() {
        let roles = [role("broker", 2.0, "network-0", 0.99)];
        let (name, why) = told(find(&roles, load(0.99), Some(("consume", 0.97))));
        assert_eq!(
            (name.as_str(), why.as_str()),
            ("consume", "its event loop was busy 97 % of the time")
        );
    }
}
