//! How much memory the process uses, and how much it may: its cgroups, its limit on address space,
//! the machine. Linux only; elsewhere nothing is known. Also returns freed memory to the system.

use std::fs;
use std::path::{Path, PathBuf};

/// Part of what the operating system allows that is used at most: what is being done goes on, and
/// memory comes back late.
const PERCENT: u64 = 85;

/// A sample of memory use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Bytes in use.
    pub used: u64,
    /// Bytes that may be in use.
    pub max: u64,
}

/// The bounds on memory and where their use is read.
#[derive(Debug)]
pub struct MemoryMeter {
    bounds: Vec<Bound>,
}

#[derive(Debug)]
struct Bound {
    kind: MemoryKind,
    max: u64,
}

#[derive(Debug)]
enum MemoryKind {
    Resident,
    AddressSpace,
    Cgroup {
        usage: PathBuf,
        stat: PathBuf,
        inactive: &'static str,
    },
}

impl MemoryMeter {
    /// Finds the bounds. `resident_max`, if not 0, replaces those of cgroups and of the machine.
    pub fn new(resident_max: u64) -> Self {
        let part = |bytes: u64| bytes / 100 * PERCENT;
        let mut bounds = Vec::new();
        let mut add = |kind, max| bounds.push(Bound { kind, max });
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        if let Some(max) = address_space(&limits) {
            add(MemoryKind::AddressSpace, part(max));
        }
        if resident_max > 0 {
            add(MemoryKind::Resident, resident_max);
            return Self { bounds };
        }
        if let Some(max) = read_field("/proc/meminfo", "MemTotal:") {
            add(MemoryKind::Resident, part(max));
        }
        let memberships = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        for (kind, max) in cgroups(Path::new("/sys/fs/cgroup"), &memberships) {
            add(kind, part(max));
        }
        Self { bounds }
    }

    /// Returns the smallest bound in bytes; `u64::MAX` if none is known.
    pub fn bytes_max(&self) -> u64 {
        let bounds = self.bounds.iter().map(|bound| bound.max);
        bounds.min().unwrap_or(u64::MAX)
    }

    /// Returns the use of the bound that is nearest to its end; `None` if nothing is known.
    pub fn sample(&self) -> Option<MemoryUse> {
        let read = |bound: &Bound| {
            let max = bound.max;
            bound.kind.read().map(|used| MemoryUse { used, max })
        };
        let share = |one: &MemoryUse| u128::from(one.used) * 1_000_000 / u128::from(one.max.max(1));
        self.bounds.iter().filter_map(read).max_by_key(share)
    }
}

impl MemoryKind {
    fn read(&self) -> Option<u64> {
        match self {
            Self::Resident => read_field("/proc/self/status", "VmRSS:"),
            Self::AddressSpace => read_field("/proc/self/status", "VmSize:"),
            Self::Cgroup {
                usage,
                stat,
                inactive,
            } => {
                let used = number(&fs::read_to_string(usage).ok()?)?;
                // The kernel takes file pages back when it needs them.
                let stat = fs::read_to_string(stat).unwrap_or_default();
                let cached = stat.lines().find_map(|line| line.strip_prefix(inactive));
                Some(used.saturating_sub(cached.and_then(number).unwrap_or(0)))
            }
        }
    }
}

/// Makes the allocator return memory that was freed a while ago to the operating system.
///
/// mimalloc does so only when a page is freed, and so keeps what an attack took for as long as the
/// process is idle afterwards. Freeing a block that has a page of its own is such an occasion.
pub fn return_freed() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(
        OWN_PAGE_BYTES,
    )));
}

/// Larger than the blocks that share a page of mimalloc. Never written, so it costs only address
/// space.
const OWN_PAGE_BYTES: usize = 4 << 20;

/// A line `NAME  123 kB` of a file, in bytes.
fn read_field(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    number(rest.trim_end_matches("kB")).map(|kilobytes| kilobytes * 1024)
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// The soft limit of `Max address space` in `/proc/self/limits`.
fn address_space(limits: &str) -> Option<u64> {
    let name = "Max address space";
    let rest = limits.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next().and_then(number)
}

/// The cgroups of a process that limit its memory, from its own one to the root. In a container the
/// root is its own.
fn cgroups(root: &Path, memberships: &str) -> Vec<(MemoryKind, u64)> {
    let mut found = Vec::new();
    for line in memberships.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let [top, max, usage, inactive] = match controllers {
            "" => ["", "memory.max", "memory.current", "inactive_file "],
            "memory" => [
                "memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
                "total_inactive_file ",
            ],
            _ => continue,
        };
        let own = Path::new(path.trim_start_matches('/'));
        for group in own.ancestors() {
            let folder = root.join(top).join(group);
            let text = fs::read_to_string(folder.join(max)).unwrap_or_default();
            if let Some(max) = number(&text) {
                let (usage, stat) = (folder.join(usage), folder.join("memory.stat"));
                found.push((
                    MemoryKind::Cgroup {
                        usage,
                        stat,
                        inactive,
                    },
                    max,
                ));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_space_is_read_where_it_is_limited() {
        let line = |value: &str| {
            format!(
                "Max cpu time  unlimited  unlimited  seconds\nMax address space     {value}   unlimited  bytes\n"
            )
        };
        assert_eq!(address_space(&line("4294967296")), Some(4 << 30));
        assert_eq!(address_space(&line("unlimited")), None);
    }

    #[test]
    fn cgroups_limit_from_the_own_one_to_the_root() {
        let root = std::env::temp_dir().join(format!("weir-cgroup-{}", std::process::id()));
        let group = root.join("a/b");
        fs::create_dir_all(&group).expect("a folder");
        let write = |path: &str, text: &str| fs::write(root.join(path), text).expect("a file");
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "1000\n");
        write("a/memory.current", "700\n");
        write("a/memory.stat", "anon 400\ninactive_file 250\n");
        let found = cgroups(&root, "0::/a/b\n1:cpu:/x\n");
        let read: Vec<_> = found
            .iter()
            .map(|(kind, max)| (kind.read(), *max))
            .collect();
        fs::remove_dir_all(&root).expect("it is there");
        assert_eq!(read, [(Some(450), 1000)]);
    }

    #[test]
    fn a_configured_bound_replaces_the_machines() {
        let meter = MemoryMeter::new(1 << 20);
        assert!(meter.bytes_max() <= 1 << 20);
        let sample = meter.sample().expect("Linux");
        assert!(sample.used > sample.max, "{sample:?}");
    }
}
