//! Limits the disk space of a run's topics. Deleted topics count until their files are removed.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Disk space available to the run.
#[derive(Debug)]
pub(super) struct Disk {
    cap: u64,
    /// Directory of the broker, if known.
    dir: Option<PathBuf>,
    /// Time and size of deletions in an unknown directory. They count for longer than Kafka's
    /// default deletion delay.
    deleted: Vec<(Instant, u64)>,
}

/// Number of topics for which there is space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TopicCapacity {
    /// Number of topics.
    pub(super) topics: u64,
    /// `true` if the free disk space is the limit, `false` if it is the cap.
    pub(super) is_disk: bool,
}

/// Used and free bytes, and whether files of deleted topics remain.
#[derive(Debug, Clone, Copy)]
struct DiskState {
    used: u64,
    free: u64,
    is_deleting: bool,
}

impl Disk {
    /// Creates the limit; `dir` is the broker's directory, if known.
    pub(super) fn new(cap: u64, dir: Option<&Path>) -> Self {
        Self {
            cap,
            dir: dir.map(Path::to_owned),
            deleted: Vec::new(),
        }
    }

    /// Returns the capacity for topics of `each` bytes while the run has no topics. Waits for the
    /// removal of deleted files while there is less space than `wanted` topics need.
    pub(super) fn capacity(&mut self, each: u64, wanted: u64, stop: &AtomicBool) -> TopicCapacity {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let state = self.state(Instant::now());
            let capacity = fit(self.cap, state, each, wanted);
            let is_final = !state.is_deleting || Instant::now() >= deadline;
            if capacity.topics >= wanted || is_final || stop.load(Ordering::Relaxed) {
                return capacity;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Records the deletion of topics with `bytes` bytes in total.
    pub(super) fn deleted(&mut self, bytes: u64) {
        if self.dir.is_none() {
            self.deleted.push((Instant::now(), bytes));
        }
    }

    fn state(&mut self, now: Instant) -> DiskState {
        if let Some(dir) = &self.dir {
            let mut is_deleting = false;
            let used = size(dir, &mut is_deleting);
            // If the free space is not known, the broker reports a full disk.
            let free = rustix::fs::statvfs(dir)
                .map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize));
            return DiskState {
                used,
                free: free.saturating_sub(RESERVE),
                is_deleting,
            };
        }
        self.deleted
            .retain(|(since, _)| now.duration_since(*since) < REMOVED_AFTER);
        DiskState {
            used: self.deleted.iter().map(|(_, bytes)| bytes).sum(),
            free: u64::MAX,
            is_deleting: !self.deleted.is_empty(),
        }
    }
}

fn fit(cap: u64, state: DiskState, each: u64, wanted: u64) -> TopicCapacity {
    let each = each.max(1);
    let by_cap = cap.saturating_sub(state.used) / each;
    let by_disk = state.free / each;
    TopicCapacity {
        topics: by_cap.min(by_disk).min(wanted),
        is_disk: by_disk < by_cap,
    }
}

/// Returns the disk usage of the files below `dir`. Sets `is_deleting` if there are directories
/// that Kafka has renamed for deletion.
fn size(dir: &Path, is_deleting: &mut bool) -> u64 {
    let mut sum = 0;
    // Files that are removed in the meantime do not count.
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        match fs::symlink_metadata(entry.path()) {
            Ok(meta) if meta.is_dir() => {
                *is_deleting |= entry.file_name().to_string_lossy().ends_with("-delete");
                sum += size(&entry.path(), is_deleting);
            }
            Ok(meta) => sum += meta.blocks() * BLOCK_BYTES,
            Err(_) => {}
        }
    }
    sum
}

/// Bytes reserved for other programs.
const RESERVE: u64 = 1 << 30;
/// Unit of `st_blocks` on every file system.
const BLOCK_BYTES: u64 = 512;
/// Time until files of deleted topics are removed: `file.delete.delay.ms` is one minute by default,
/// and the files are then removed one by one.
const REMOVED_AFTER: Duration = Duration::from_secs(75);
const WAIT_MAX: Duration = Duration::from_secs(100);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn state(used: u64, free: u64) -> DiskState {
        DiskState {
            used,
            free,
            is_deleting: false,
        }
    }

    #[test]
    fn capacity_follows_cap_usage_and_free_space() {
        let capacity = |topics, is_disk| TopicCapacity { topics, is_disk };
        assert_eq!(fit(20, state(0, 1000), 1, 60), capacity(20, false));
        assert_eq!(fit(20, state(5, 1000), 4, 60), capacity(3, false));
        assert_eq!(fit(20, state(0, 1000), 1, 7), capacity(7, false));
        assert_eq!(fit(20, state(0, 10), 3, 60), capacity(3, true));
        assert_eq!(fit(20, state(25, 1000), 1, 60), capacity(0, false));
        assert_eq!(fit(20, state(0, 1000), 21, 60), capacity(0, false));
        assert_eq!(fit(20, state(0, 1000), 0, 5), capacity(5, false));
    }

    #[test]
    fn deleted_topics_of_unknown_brokers_count_temporarily() {
        let mut disk = Disk::new(100, None);
        let stop = AtomicBool::new(true);
        assert_eq!(disk.capacity(10, 10, &stop).topics, 10);
        disk.deleted(40);
        disk.deleted(30);
        assert_eq!(disk.capacity(10, 10, &stop).topics, 3);
        let later = disk.state(Instant::now() + REMOVED_AFTER);
        assert!(later.used == 0 && !later.is_deleting);
    }

    #[test]
    fn known_directory_is_measured() {
        let dir = std::env::temp_dir().join(format!("weir-disk-{}", std::process::id()));
        let deleted = dir.join("data/topic-0.abc-delete");
        fs::create_dir_all(&deleted).unwrap();
        fs::write(deleted.join("0.log"), vec![1; 100_000]).unwrap();
        let mut disk = Disk::new(1 << 20, Some(&dir));
        let before = disk.state(Instant::now());
        assert!(before.used >= 100_000 && before.is_deleting, "{before:?}");
        fs::remove_dir_all(&deleted).unwrap();
        let after = disk.state(Instant::now());
        fs::remove_dir_all(&dir).unwrap();
        assert!(after.used < 100_000 && !after.is_deleting, "{after:?}");
    }
}
