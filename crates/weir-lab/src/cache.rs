//! The per-user cache. Each entry is built once and atomically, even by concurrent processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::disk;
use crate::error::{LabError, Result};
use crate::operation::Operation;

/// Returns the cache directory `name`, created by `build` if it does not exist.
///
/// `build` receives an empty directory, which becomes the entry only if `build` succeeds. It needs
/// `needed_bytes` of free space. Waits while another process builds the same entry.
///
/// # Errors
/// Errors of `build`, an unusable or full cache directory, or an interruption.
pub fn entry(
    name: &str,
    needed_bytes: u64,
    operation: &mut Operation<'_>,
    build: impl FnOnce(&Path, &mut Operation<'_>) -> Result<()>,
) -> Result<PathBuf> {
    let cache = disk::cache_dir()?;
    let entry = cache.join(name);
    if entry.is_dir() {
        return Ok(entry);
    }
    disk::prepare(&cache, needed_bytes)?;
    let _lock = wait_for_lock(&cache.join(format!("{name}.lock")), name, operation)?;
    if entry.is_dir() {
        return Ok(entry);
    }
    // Left behind by a killed process. No process uses it now, because we have the lock.
    let unfinished = cache.join(format!("{name}.unfinished"));
    disk::remove(&unfinished)?;
    let unusable = |error| LabError::file(&entry, error);
    fs::create_dir(&unfinished).map_err(unusable)?;
    if let Err(error) = build(&unfinished, operation) {
        disk::remove(&unfinished)?;
        return Err(error);
    }
    fs::rename(&unfinished, &entry).map_err(unusable)?;
    Ok(entry)
}

fn wait_for_lock(path: &Path, name: &str, op: &mut Operation<'_>) -> Result<File> {
    let mut is_reported = false;
    loop {
        if let Some(lock) = try_lock(path)? {
            return Ok(lock);
        }
        if !is_reported {
            (op.progress)(&format!("waiting for another process to install {name}"));
            is_reported = true;
        }
        op.proceed("waiting for another process to fill the cache")?;
        thread::sleep(Duration::from_millis(100));
    }
}

/// Locks the file `path`; `None` if another process has the lock. Dropping the file unlocks it.
pub(crate) fn try_lock(path: &Path) -> Result<Option<File>> {
    let failed = |error| LabError::io(format!("lock {}", path.display()), error);
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(file)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(failed(error.into())),
    }
}
