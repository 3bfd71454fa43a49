//! Operating system settings that affect results, by the system's own names.

use std::collections::BTreeMap;
use std::fs;

/// Returns all settings that can be read; missing ones are omitted.
pub(super) fn settings() -> BTreeMap<String, String> {
    let files = FILES.iter().map(|(name, path)| (*name, read(path)));
    let kernel = KERNEL.iter().map(|name| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        (*name, read(&path))
    });
    let own = [
        ("limit.open_files", limit("Max open files")),
        ("virtualization", virtualization()),
    ];
    let present = files.chain(kernel).chain(own);
    let present = present.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    present.filter(|(_, value)| !value.is_empty()).collect()
}

/// Returns the content of a small file on one line.
fn read(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let words: Vec<&str> = text.split_whitespace().collect();
    Some(words.join(" "))
}

/// Returns the soft and hard value of a limit of this process.
fn limit(name: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/self/limits").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let words: Vec<&str> = line.split_whitespace().take(2).collect();
    Some(words.join(" "))
}

/// Returns `virtual machine` if the processor flags include a hypervisor, otherwise `none`.
fn virtualization() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let flags = text.lines().find(|line| line.starts_with("flags"))?;
    let is_virtual = flags.split_whitespace().any(|flag| flag == "hypervisor");
    let kind = if is_virtual {
        "virtual machine"
    } else {
        "none"
    };
    Some(kind.to_owned())
}

const FILES: &[(&str, &str)] = &[
    (
        "cpu.governor",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
    ),
    (
        "cpu.driver",
        "/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver",
    ),
    ("cpu.boost", "/sys/devices/system/cpu/cpufreq/boost"),
    ("cpu.hyperthreading", "/sys/devices/system/cpu/smt/active"),
    ("cpu.online", "/sys/devices/system/cpu/online"),
    ("cpu.quota", "/sys/fs/cgroup/cpu.max"),
    ("numa.nodes", "/sys/devices/system/node/online"),
    (
        "clock.source",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    ),
    (
        "memory.huge_pages",
        "/sys/kernel/mm/transparent_hugepage/enabled",
    ),
    ("load_average_before", "/proc/loadavg"),
];

const KERNEL: &[&str] = &[
    "vm.swappiness",
    "vm.dirty_ratio",
    "vm.dirty_background_ratio",
    "kernel.sched_autogroup_enabled",
    "kernel.numa_balancing",
    "fs.file-max",
    "fs.nr_open",
    "net.core.somaxconn",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.netdev_max_backlog",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_tw_reuse",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_settings_are_omitted() {
        assert_eq!(read("/nowhere"), None);
        assert_eq!(limit("Max nothing"), None);
        let files = limit("Max open files").expect("every process has one");
        assert_eq!(files.split(' ').count(), 2, "{files}");
        assert!(settings().values().all(|value| !value.is_empty()));
    }
}
