//! Pins broker, drivers and this program to separate cores, if there are enough.

use std::fs;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores of each kind of process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cores {
    /// Cores of the broker.
    pub broker: Vec<usize>,
    /// Cores of the drivers.
    pub drivers: Vec<usize>,
    /// Cores of this process.
    pub own: Vec<usize>,
}

impl Cores {
    /// Divides the cores that this process may use: the last for itself, the first half of the rest
    /// for the broker. `None` if there are too few.
    pub fn divide() -> Option<Self> {
        let set = sched_getaffinity(None).ok()?;
        let all: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|core| set.is_set(*core))
            .collect();
        Self::of(&all)
    }

    fn of(all: &[usize]) -> Option<Self> {
        if all.len() < CORES_MIN {
            return None;
        }
        let (own, rest) = all.split_last()?;
        let (broker, drivers) = rest.split_at(rest.len() / 2);
        Some(Self {
            broker: broker.to_vec(),
            drivers: drivers.to_vec(),
            own: vec![*own],
        })
    }
}

/// Pins all threads of a process to `cores`; new threads inherit this. Returns `true` if it worked
/// for all.
pub fn pin(pid: u32, cores: &[usize]) -> bool {
    let mut set = CpuSet::new();
    cores.iter().for_each(|core| set.set(*core));
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else {
        return false;
    };
    let mut all = true;
    for task in tasks.filter_map(Result::ok) {
        let thread = task.file_name().to_str().and_then(|name| name.parse().ok());
        let thread = thread.and_then(Pid::from_raw);
        all &= thread.is_some_and(|thread| sched_setaffinity(Some(thread), &set).is_ok());
    }
    all
}

const CORES_MIN: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_cores_are_divided() {
        assert_eq!(Cores::of(&[0, 1, 2]), None);
        let four = Cores::of(&[0, 1, 2, 3]).unwrap();
        assert_eq!(
            (four.broker, four.drivers, four.own),
            (vec![0], vec![1, 2], vec![3])
        );
        let eight = Cores::of(&[0, 2, 4, 6, 8, 10, 12, 14]).unwrap();
        assert_eq!(eight.broker, [0, 2, 4]);
        assert_eq!(eight.drivers, [6, 8, 10, 12]);
    }

    #[test]
    fn pinned_process_has_its_affinity() {
        let set = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|core| set.is_set(*core)).unwrap();
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        assert!(pin(child.id(), &[first]));
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let list = status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        assert_eq!(list.map(str::trim), Some(first.to_string().as_str()));
        assert!(!pin(u32::MAX, &[first]));
    }
}
