//! Files that others replace while we run: whether they look different from when they were read last.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What changes with a file's content: modification time, size, and the file behind the name.
type Stamp = (i64, i64, u64, u64);

/// Files that belong together, such as a certificate and its key.
#[derive(Debug)]
pub struct FileWatcher {
    paths: Vec<PathBuf>,
    /// What they looked like when they were read last; `None`: one was not there.
    seen: Mutex<Option<Vec<Stamp>>>,
}

impl FileWatcher {
    /// As they look now; they are to be read behind this.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let paths: Vec<PathBuf> = paths.into_iter().collect();
        let seen = Mutex::new(stamps(&paths));
        Self { paths, seen }
    }

    /// Runs `read` if they look different. While a file is being replaced it may be missing for a
    /// moment, so nothing is read then.
    pub fn if_changed(&self, read: impl FnOnce()) {
        let mut seen = self.seen();
        let now = stamps(&self.paths);
        if now.is_some() && *seen != now {
            *seen = now;
            read();
        }
    }

    /// Runs `read` whatever they look like. Never two at a time: the last to begin has the last word.
    pub fn run_now(&self, read: impl FnOnce()) {
        let mut seen = self.seen();
        *seen = stamps(&self.paths);
        read();
    }

    fn seen(&self) -> MutexGuard<'_, Option<Vec<Stamp>>> {
        // Should reading panic, what was seen is still what was seen.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `None` while one of the files is not there.
fn stamps(paths: &[PathBuf]) -> Option<Vec<Stamp>> {
    let stamp = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.mtime(), file.mtime_nsec(), file.size(), file.ino()))
    };
    paths.iter().map(stamp).collect()
}
