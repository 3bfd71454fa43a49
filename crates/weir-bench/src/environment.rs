//! Facts about the machine.

mod system;

use std::fs;

use procfs::{CpuInfo, Current as _, Meminfo};
use weir_stats::run::{ClockInfo, ClockMode, Machine};

pub(super) fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let os = read("/etc/os-release");
    let mut os = os.lines();
    let os = os.find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let cpus = CpuInfo::current().ok();
    let model = cpus.as_ref().and_then(|cpus| cpus.model_name(0));
    Machine {
        cpu_model: model.unwrap_or("unknown").to_owned(),
        cpu_cores: cores(),
        memory_bytes: memory_bytes(),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        os: os.unwrap_or("unknown").trim_matches('"').to_owned(),
        settings: system::settings(),
    }
}

pub(super) fn load_average() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Returns the number of logical processors that this process may use.
pub(super) fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64
}

/// Returns the size of main memory, or the limit of the control group if that is lower.
fn memory_bytes() -> u64 {
    let total = Meminfo::current().map_or(0, |memory| memory.mem_total);
    let allowed = fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    let allowed = allowed.trim().parse();
    allowed.map_or(total, |allowed: u64| allowed.min(total))
}

/// Returns the clock quality. All processes read the same clock; each takes the wall clock once, so
/// they differ by microseconds at most.
pub(super) fn clock() -> ClockInfo {
    ClockInfo {
        mode: ClockMode::SameHost,
        bound_ns: 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_facts_are_read() {
        let machine = machine();
        assert!(machine.cpu_cores > 0 && machine.memory_bytes > 1 << 20);
        assert!(!machine.kernel.is_empty() && !machine.os.is_empty());
        assert!(
            machine.settings["net.core.somaxconn"]
                .parse::<u32>()
                .is_ok()
        );
        assert!(machine.settings.contains_key("load_average_before"));
    }
}
