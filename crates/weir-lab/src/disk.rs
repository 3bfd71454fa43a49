//! Directories: where they are by default, whether they can be written, how much room they have.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::LabError;

/// The per-user directory for things that can be fetched again.
pub(crate) fn cache_dir() -> Result<PathBuf, LabError> {
    user_dir("XDG_CACHE_HOME", ".cache")
}

/// The per-user directory for state that outlives a command.
pub(crate) fn state_dir() -> Result<PathBuf, LabError> {
    user_dir("XDG_STATE_HOME", ".local/state")
}

fn user_dir(variable: &'static str, below_home: &str) -> Result<PathBuf, LabError> {
    let absolute = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let base = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)));
    base.map(|base| base.join("weir"))
        .ok_or_else(|| LabError::Setting {
            name: "HOME",
            value: env::var("HOME").unwrap_or_default(),
            reason: format!("not an absolute path; set HOME or {variable}"),
        })
}

/// Makes `dir` if needed, and makes sure that it can be written and has `needed_bytes` free.
pub(crate) fn prepare(dir: &Path, needed_bytes: u64) -> Result<(), LabError> {
    let unusable = |error| LabError::file(dir, error);
    fs::create_dir_all(dir).map_err(unusable)?;
    let free_bytes = free_bytes(dir).map_err(unusable)?;
    if free_bytes < needed_bytes {
        return Err(LabError::DiskFull {
            dir: dir.to_owned(),
            free_bytes,
            needed_bytes,
        });
    }
    let probe = dir.join(format!(".write-{}", std::process::id()));
    fs::write(&probe, b"weir")
        .and_then(|()| fs::remove_file(&probe))
        .map_err(unusable)
}

/// Bytes that this user may still write on the disk of `dir`.
pub(crate) fn free_bytes(dir: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Removes a file or a whole directory; one that is not there is fine.
pub(crate) fn remove(path: &Path) -> Result<(), LabError> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(LabError::io(format!("remove {}", path.display()), error))
        }
        _ => Ok(()),
    }
}

pub(crate) fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_too_little_room_is_named() {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path(), 1).unwrap();
        let error = prepare(dir.path(), u64::MAX).unwrap_err();
        assert!(matches!(error, LabError::DiskFull { .. }), "{error}");
        assert!(error.to_string().contains("disk full at"), "{error}");
    }

    #[test]
    fn a_file_in_the_way_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = prepare(&file.join("lab"), 1).unwrap_err();
        assert!(matches!(error, LabError::Directory { .. }), "{error}");
    }
}
