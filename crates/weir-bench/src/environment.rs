//! Facts about the machine and the configuration of a run.

mod system;

use std::fs;

use weir_stats::run::{ClockInfo, ClockMode, Machine, Placement, SettingGroup};

use crate::experiment::folder::{self, list};
use crate::plan::{Architecture, Plan, Validity, Workload};

/// Returns the machine that this process runs on.
pub(super) fn machine() -> Machine {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let os = read("/etc/os-release");
    let os = os
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="));
    Machine {
        cpu_model: field(&read("/proc/cpuinfo"), "model name"),
        cpu_cores: cores(),
        memory_bytes: memory_bytes(),
        kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
        os: os.unwrap_or("unknown").trim_matches('"').to_owned(),
        settings: system::settings(),
    }
}

/// Returns the load average of the last minute.
pub(super) fn load_average() -> Option<f64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().next()?.parse().ok()
}

/// Returns the number of logical processors that this process may use.
pub(super) fn cores() -> u64 {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64
}

/// Returns the number of local ports available for connections to one address.
pub(super) fn local_ports() -> u64 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let mut ends = range
        .split_whitespace()
        .filter_map(|end| end.parse::<u64>().ok());
    match (ends.next(), ends.next()) {
        (Some(first), Some(last)) if first <= last => last - first + 1,
        _ => u64::from(u16::MAX),
    }
}

/// Returns the size of main memory, or the limit of the control group if that is lower.
fn memory_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = field(&text, "MemTotal");
    let kib = kib
        .split_whitespace()
        .next()
        .and_then(|number| number.parse::<u64>().ok());
    let total = kib.map_or(0, |kib| kib * 1024);
    let allowed = fs::read_to_string("/sys/fs/cgroup/memory.max").unwrap_or_default();
    allowed
        .trim()
        .parse()
        .map_or(total, |allowed: u64| allowed.min(total))
}

/// Returns the value of the first `name : value` line.
fn field(text: &str, name: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_once(':')).map_or_else(
        || "unknown".to_owned(),
        |(_, value)| value.trim().to_owned(),
    )
}

/// Returns the clock quality. All processes read the same clock; each takes the wall clock once, so
/// they differ by microseconds at most.
pub(super) fn clock() -> ClockInfo {
    ClockInfo {
        mode: ClockMode::SameHost,
        bound_ns: 1000,
    }
}

/// Returns the process roles of a plan; all run on this machine.
pub(super) fn placement(plan: &Plan) -> Vec<Placement> {
    let has = |architecture| plan.architectures.contains(&architecture);
    let is_timed_apart = plan.workload.marked_per_s > 0.0;
    let (gateway, floor) = (has(Architecture::Gateway), has(Architecture::Floor));
    let consumers = has(Architecture::Groups) || has(Architecture::Standalone);
    let roles = [
        (true, "broker", "Apache Kafka"),
        (true, "produce", "open-loop producers"),
        (
            is_timed_apart,
            "produce_marked",
            "producer of the timed records; all other records are background load",
        ),
        (gateway, "gateway", "weir gateway run"),
        (floor, "floor", "pre-encoded frames, plain socket writes"),
        (
            gateway || floor,
            "clients",
            "simulated clients, one event loop",
        ),
        (consumers, "consume", "plain consumers, one event loop"),
    ];
    let present = roles.into_iter().filter(|(is_present, ..)| *is_present);
    present
        .map(|(_, role, text)| folder::placement(role, text))
        .collect()
}

/// Returns the plan's values as recorded in `run.json`.
pub(super) fn settings(plan: &Plan, bootstrap: &str) -> Vec<SettingGroup> {
    let variants: Vec<&str> = plan.variants.iter().map(|it| it.name.as_str()).collect();
    let load = SettingGroup::new("load")
        .with("levels_clients", list(&plan.levels))
        .with("variants", variants.join(" "))
        .with("repetitions", plan.repetitions)
        .with("ramp_per_s", plan.ramp_per_s)
        .with("broker_warm_up_s", plan.broker_warm_up.as_secs_f64())
        .with("warm_up_s", plan.warm_up.as_secs_f64())
        .with("hold_s", plan.hold.as_secs_f64())
        .with("drain_s", plan.drain.as_secs_f64());
    let key = plan.clients.key.as_deref();
    let clients = SettingGroup::new("clients")
        .with("scenario", plan.clients.scenario.name())
        .with("mode", plan.clients.mode.as_str())
        .with("key", key.unwrap_or("distributed over the pool"))
        .with("fields", plan.clients.fields.join(" "));
    vec![
        load,
        workload(&plan.workload, &list(&plan.rates_per_s())),
        clients,
        topic(&plan.workload, plan.topic.as_deref(), bootstrap),
        validity(&plan.validity),
    ]
}

/// Returns the settings of the records, with the rates of all cells.
pub(super) fn workload(workload: &Workload, rates_per_s: &str) -> SettingGroup {
    SettingGroup::new("workload")
        .with("kind", workload.kind)
        .with("rate_per_s", rates_per_s)
        .with("marked_per_s", workload.marked_per_s)
        .with("size_bytes", workload.size_bytes)
        .with("producers", workload.producers)
        .with("keys", workload.keys)
        .with("key_distribution", workload.distribution)
        .with("entropy", workload.entropy)
        .with("change_ratio", workload.change_ratio)
        .with("compression.type", &workload.compression)
        .with("seed", workload.seed)
}

/// Returns the settings of the topics.
pub(super) fn topic(workload: &Workload, name: Option<&str>, bootstrap: &str) -> SettingGroup {
    let (timestamps, origin) = workload.timestamps.topic_config();
    SettingGroup::new("topic")
        .with("bootstrap.servers", bootstrap)
        .with("name", name.unwrap_or("new topic per cell"))
        .with("partitions", workload.partitions)
        .with(timestamps, origin)
        .with("replication.factor", 1)
}

/// Returns the limits of the benchmarking tool.
pub(super) fn validity(validity: &Validity) -> SettingGroup {
    SettingGroup::new("validity")
        .with("schedule_lag_p99_ms", validity.schedule_lag_p99_ms)
        .with("clients_busy_share", validity.clients_busy_share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_facts_are_read() {
        let machine = machine();
        assert!(machine.cpu_cores > 0 && machine.memory_bytes > 1 << 20);
        assert!(!machine.kernel.is_empty() && !machine.os.is_empty());
        assert_eq!(field("a\t: b c\nx: y", "a"), "b c");
        assert_eq!(field("", "a"), "unknown");
        assert!((1..=65_536).contains(&local_ports()));
        assert!(
            machine.settings["net.core.somaxconn"]
                .parse::<u32>()
                .is_ok()
        );
        assert!(machine.settings.contains_key("load_average_before"));
    }
}
