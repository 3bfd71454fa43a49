//! Detects changes of files that are replaced at run time.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// File metadata that changes with the content: modification time, size, inode.
type Stamp = (i64, i64, u64, u64);

/// A group of files that belong together, such as a certificate and its key.
#[derive(Debug)]
pub struct FileWatcher {
    paths: Vec<PathBuf>,
    /// Metadata at the last read; `None` if a file was missing.
    seen: Mutex<Option<Vec<Stamp>>>,
}

impl FileWatcher {
    /// Creates a watcher with the current metadata; the files are to be read afterwards.
    pub fn new(paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let paths: Vec<PathBuf> = paths.into_iter().collect();
        let seen = Mutex::new(stamps(&paths));
        Self { paths, seen }
    }

    /// Returns the paths of the files.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// Runs `read` if a file has changed. Does nothing while a file is missing, as happens briefly
    /// during a replacement.
    pub fn if_changed(&self, read: impl FnOnce()) {
        let mut seen = self.seen();
        let now = stamps(&self.paths);
        if now.is_some() && *seen != now {
            *seen = now;
            read();
        }
    }

    /// Runs `read` unconditionally. Never runs two at a time, so the last to start determines the
    /// result.
    pub fn run_now(&self, read: impl FnOnce()) {
        let mut seen = self.seen();
        *seen = stamps(&self.paths);
        read();
    }

    fn seen(&self) -> MutexGuard<'_, Option<Vec<Stamp>>> {
        // The metadata stays valid if `read` panics.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the metadata of the files, `None` if one is missing.
fn stamps(paths: &[PathBuf]) -> Option<Vec<Stamp>> {
    let stamp = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.mtime(), file.mtime_nsec(), file.size(), file.ino()))
    };
    paths.iter().map(stamp).collect()
}
