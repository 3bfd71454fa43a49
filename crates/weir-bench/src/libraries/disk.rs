//! How many topics may be on the broker's disk at once: a cap that is never exceeded, deleted topics included until
//! their files are gone.

use std::collections::VecDeque;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The room there is.
#[derive(Debug)]
pub(super) struct Disk {
    cap: u64,
    place: TopicStorage,
}

/// Where the broker keeps its topics.
#[derive(Debug)]
enum TopicStorage {
    /// A folder that can be looked at.
    Known(PathBuf),
    /// A broker of others: what was deleted is reckoned to be there for as long as Kafka's default delay, and longer.
    Unknown(VecDeque<(Instant, u64)>),
}

/// What there is room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TopicCapacity {
    /// So many topics.
    pub(super) topics: u64,
    /// Whether the disk itself is the limit, rather than the cap.
    pub(super) is_disk: bool,
}

/// What is used, what is free, and whether files of deleted topics are still there.
#[derive(Debug, Clone, Copy)]
struct DiskState {
    used: u64,
    free: u64,
    going: bool,
}

impl Disk {
    /// `folder`: of the broker, if it is known.
    pub(super) fn new(cap: u64, folder: Option<&Path>) -> Self {
        let place = match folder {
            Some(folder) => TopicStorage::Known(folder.to_owned()),
            None => TopicStorage::Unknown(VecDeque::new()),
        };
        Self { cap, place }
    }

    /// Whether one topic of `each` bytes can ever have room.
    pub(super) fn can_hold(&self, each: u64) -> bool {
        each <= self.cap
    }

    /// Room for topics of `each` bytes, when none of the run is there; waits for files of deleted ones to go as long as
    /// there is less room than for `wanted`.
    pub(super) fn room(&mut self, each: u64, wanted: u64, stop: &AtomicBool) -> TopicCapacity {
        let deadline = Instant::now() + WAIT_MAX;
        loop {
            let state = self.state(Instant::now());
            let room = fit(self.cap, state, each, wanted);
            let is_over = !state.going || Instant::now() >= deadline;
            if room.topics >= wanted || is_over || stop.load(Ordering::Relaxed) {
                return room;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Notes that topics of so many bytes were deleted.
    pub(super) fn deleted(&mut self, bytes: u64) {
        if let TopicStorage::Unknown(going) = &mut self.place {
            going.push_back((Instant::now(), bytes));
        }
    }

    fn state(&mut self, now: Instant) -> DiskState {
        match &mut self.place {
            TopicStorage::Known(folder) => {
                let mut going = false;
                let used = size(folder, &mut going);
                DiskState {
                    used,
                    free: free_bytes(folder).saturating_sub(RESERVE),
                    going,
                }
            }
            TopicStorage::Unknown(going) => {
                while let Some((since, _)) = going.front() {
                    if now.duration_since(*since) < GONE_AFTER {
                        break;
                    }
                    going.pop_front();
                }
                DiskState {
                    used: going.iter().map(|(_, bytes)| bytes).sum(),
                    free: u64::MAX,
                    going: !going.is_empty(),
                }
            }
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

/// Bytes that the files below `folder` take on the disk. Kafka renames what it is about to delete.
fn size(folder: &Path, going: &mut bool) -> u64 {
    // What goes away meanwhile takes no room any more.
    let Ok(entries) = fs::read_dir(folder) else {
        return 0;
    };
    let mut sum = 0;
    for entry in entries.filter_map(Result::ok) {
        let Ok(meta) = fs::symlink_metadata(entry.path()) else {
            continue;
        };
        if meta.is_dir() {
            *going |= entry.file_name().to_string_lossy().ends_with("-delete");
            sum += size(&entry.path(), going);
        } else {
            sum += meta.blocks() * BLOCK_BYTES;
        }
    }
    sum
}

fn free_bytes(folder: &Path) -> u64 {
    // Where nothing is told the broker will tell.
    rustix::fs::statvfs(folder).map_or(u64::MAX, |stat| stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// That other programs may need meanwhile.
const RESERVE: u64 = 1 << 30;
/// Of `st_blocks`, whatever the file system.
const BLOCK_BYTES: u64 = 512;
/// `file.delete.delay.ms` is a minute unless set, and the files then go one by one.
const GONE_AFTER: Duration = Duration::from_secs(75);
const WAIT_MAX: Duration = Duration::from_secs(100);
const LOOK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::*;

    fn state(used: u64, free: u64) -> DiskState {
        DiskState {
            used,
            free,
            going: false,
        }
    }

    #[test]
    fn what_fits_is_reckoned_from_cap_use_and_free_space() {
        let room = |topics, is_disk| TopicCapacity { topics, is_disk };
        assert_eq!(fit(20, state(0, 1000), 1, 60), room(20, false));
        assert_eq!(fit(20, state(5, 1000), 4, 60), room(3, false));
        assert_eq!(fit(20, state(0, 1000), 1, 7), room(7, false));
        assert_eq!(fit(20, state(0, 10), 3, 60), room(3, true));
        assert_eq!(fit(20, state(25, 1000), 1, 60), room(0, false));
        assert_eq!(fit(20, state(0, 1000), 21, 60), room(0, false));
        assert_eq!(fit(20, state(0, 1000), 0, 5), room(5, false));
    }

    #[test]
    fn of_an_unknown_broker_the_deleted_counts_for_a_while() {
        let mut disk = Disk::new(100, None);
        let stop = AtomicBool::new(true);
        assert_eq!(disk.room(10, 10, &stop).topics, 10);
        disk.deleted(40);
        disk.deleted(30);
        assert_eq!(disk.room(10, 10, &stop).topics, 3);
        let later = disk.state(Instant::now() + GONE_AFTER);
        assert!(later.used == 0 && !later.going);
        assert!(disk.can_hold(100) && !disk.can_hold(101));
    }

    #[test]
    fn a_known_folder_is_measured() {
        let dir = std::env::temp_dir().join(format!("weir-disk-{}", std::process::id()));
        let gone = dir.join("data/topic-0.abc-delete");
        fs::create_dir_all(&gone).unwrap();
        fs::write(gone.join("0.log"), vec![1; 100_000]).unwrap();
        let mut disk = Disk::new(1 << 20, Some(&dir));
        let before = disk.state(Instant::now());
        assert!(before.used >= 100_000 && before.going, "{before:?}");
        fs::remove_dir_all(&gone).unwrap();
        let after = disk.state(Instant::now());
        fs::remove_dir_all(&dir).unwrap();
        assert!(after.used < 100_000 && !after.going, "{after:?}");
    }
}
