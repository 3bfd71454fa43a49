//! Memory use of the process, and its bounds: cgroups, limit on address space, physical memory.
//! Also returns freed memory to the operating system. Bounds and use are known on Linux only.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};

/// Percentage of a system bound that may be used. The rest is for work in progress, and because
/// freed memory returns to the system late.
const PERCENT: u64 = 85;

/// Sample of memory use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryUse {
    /// Used bytes.
    pub used: u64,
    /// Maximum number of bytes.
    pub max: u64,
}

/// Bounds on memory, with the sources of their use.
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
    /// Finds the bounds. A `resident_max` above 0 replaces the bounds of cgroups and of the
    /// machine.
    pub fn new(resident_max: u64) -> Self {
        let part = |bytes: u64| bytes / 100 * PERCENT;
        let mut bounds = Vec::new();
        let mut add = |kind, max| bounds.push(Bound { kind, max });
        if let Some(max) = getrlimit(Resource::As).current {
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

    /// Returns the smallest bound in bytes, `u64::MAX` if none is known.
    pub fn bytes_max(&self) -> u64 {
        let bounds = self.bounds.iter().map(|bound| bound.max);
        bounds.min().unwrap_or(u64::MAX)
    }

    /// Returns the use of the bound with the highest utilization, `None` if no use is known.
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
                // The kernel reclaims inactive file pages when it needs memory, so they do not
                // count.
                let stat = fs::read_to_string(stat).unwrap_or_default();
                let cached = stat.lines().find_map(|line| line.strip_prefix(inactive));
                Some(used.saturating_sub(cached.and_then(number).unwrap_or(0)))
            }
        }
    }
}

/// Makes the allocator return memory that was freed a while ago to the operating system.
///
/// mimalloc does so only when a page is freed. An idle process would therefore hold the memory of
/// an earlier load peak. Freeing a block that has its own page is such an occasion.
pub fn return_freed() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(
        PAGE_BLOCK_BYTES,
    )));
}

/// Size above that of blocks that share a page of mimalloc. The block is never written, so it costs
/// only address space.
const PAGE_BLOCK_BYTES: usize = 4 << 20;

/// Reads a line `NAME  123 kB` of a file and returns its value in bytes.
fn read_field(path: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    number(rest.trim_end_matches("kB")).map(|kilobytes| kilobytes * 1024)
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// Returns the cgroups that limit the memory of a process, from its own one to the root. In a
/// container the process sees its own cgroup as the root.
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
            let directory = root.join(top).join(group);
            let text = fs::read_to_string(directory.join(max)).unwrap_or_default();
            if let Some(max) = number(&text) {
                let (usage, stat) = (directory.join(usage), directory.join("memory.stat"));
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
    fn cgroup_limits_apply_up_to_root() {
        let root = std::env::temp_dir().join(format!("weir-cgroup-{}", std::process::id()));
        let group = root.join("a/b");
        fs::create_dir_all(&group).expect("create directory");
        let write = |path: &str, text: &str| fs::write(root.join(path), text).expect("write file");
        write("a/b/memory.max", "max\n");
        write("a/memory.max", "1000\n");
        write("a/memory.current", "700\n");
        write("a/memory.stat", "anon 400\ninactive_file 250\n");
        let found = cgroups(&root, "0::/a/b\n1:cpu:/x\n");
        let read: Vec<_> = found
            .iter()
            .map(|(kind, max)| (kind.read(), *max))
            .collect();
        fs::remove_dir_all(&root).expect("remove directory");
        assert_eq!(read, [(Some(450), 1000)]);
    }

    #[test]
    fn configured_bound_replaces_machine_bounds() {
        let meter = MemoryMeter::new(1 << 20);
        assert!(meter.bytes_max() <= 1 << 20);
        let sample = meter.sample().expect("memory use");
        assert!(sample.used > sample.max, "{sample:?}");
    }
}
