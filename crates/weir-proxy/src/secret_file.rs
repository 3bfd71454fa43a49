//! Text files whose content must stay secret.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SecretFileError {
    #[error("{path}: {error}")]
    Read { path: String, error: io::Error },
    #[error("{path}: more than {max} bytes")]
    Size { path: String, max: u64 },
    #[error("{path}: mode {mode:03o} lets other users read or change the file: set it to 600")]
    Mode { path: String, mode: u32 },
}

/// Reads a file of at most `bytes_max` bytes that has none of the permission bits `forbidden`.
pub(crate) fn read(path: &Path, bytes_max: u64, forbidden: u32) -> Result<String, SecretFileError> {
    let name = || path.display().to_string();
    let failed = |error| SecretFileError::Read {
        path: name(),
        error,
    };
    let file = File::open(path).map_err(failed)?;
    let mode = file.metadata().map_err(failed)?.mode() & 0o777;
    if mode & forbidden != 0 {
        return Err(SecretFileError::Mode { path: name(), mode });
    }
    let mut text = String::new();
    let read = file.take(bytes_max + 1).read_to_string(&mut text);
    read.map_err(failed)?;
    match text.len() as u64 > bytes_max {
        true => Err(SecretFileError::Size {
            path: name(),
            max: bytes_max,
        }),
        false => Ok(text),
    }
}
