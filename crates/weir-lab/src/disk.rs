//! Directories: default locations, creation and removal.

use std::env;
use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

pub(crate) use crate::disk_space::free_bytes;
use crate::error::{LabError, Result};

/// Returns the per-user directory for data that can be downloaded again.
pub(crate) fn cache_dir() -> Result<PathBuf> {
    user_dir("XDG_CACHE_HOME", ".cache")
}

/// Returns the per-user directory for state that outlives a command.
pub(crate) fn state_dir() -> Result<PathBuf> {
    user_dir("XDG_STATE_HOME", ".local/state")
}

fn user_dir(variable: &'static str, below_home: &str) -> Result<PathBuf> {
    let absolute = |name: &str| {
        let path = PathBuf::from(env::var_os(name)?);
        path.is_absolute().then_some(path)
    };
    let base = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)));
    base.map(|base| base.join("weir"))
        .ok_or_else(|| LabError::Setting {
            name: "HOME",
            value: env::var("HOME").unwrap_or_default(),
            reason: format!("is not an absolute path; set HOME or {variable}"),
        })
}

/// Creates `dir` if needed. Checks that it is writable and has `needed_bytes` of free space.
pub(crate) fn prepare(dir: &Path, needed_bytes: u64) -> Result<()> {
    let unusable = |error| LabError::file(dir, error);
    fs::create_dir_all(dir).map_err(unusable)?;
    let free_bytes = free_bytes(dir).map_err(unusable)?;
    if free_bytes < needed_bytes {
        return Err(LabError::DiskFull(dir.to_owned(), free_bytes, needed_bytes));
    }
    let probe = dir.join(format!(".write-{}", std::process::id()));
    fs::write(&probe, b"weir")
        .and_then(|()| fs::remove_file(&probe))
        .map_err(unusable)
}

/// Removes a file or a whole directory. A missing one is not an error.
pub(crate) fn remove(path: &Path) -> Result<()> {
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

/// Writes a file that only this user can read. An existing file is replaced atomically.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<()> {
    let fresh = path.with_extension("new");
    let write = || {
        if fresh.exists() {
            fs::remove_file(&fresh)?;
        }
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&fresh)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&fresh, path)
    };
    write().map_err(|error| LabError::file(path, error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn private_file_is_replaced_and_unreadable_to_others() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.key");
        fs::write(&path, "old").unwrap();
        write_private(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let mode = path.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn full_disk_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path(), 1).unwrap();
        let error = prepare(dir.path(), u64::MAX).unwrap_err();
        assert!(matches!(error, LabError::DiskFull { .. }), "{error}");
        assert!(error.to_string().contains("disk full at"), "{error}");
    }

    #[test]
    fn file_instead_of_directory_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = prepare(&file.join("lab"), 1).unwrap_err();
        assert!(matches!(error, LabError::Directory { .. }), "{error}");
    }
}
