//! Free disk space.

use std::path::Path;

/// Returns the number of bytes that this user can still write to the disk of `dir`.
pub(crate) fn free_bytes(dir: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(dir)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Converts bytes to MiB, rounded down.
pub(crate) fn mib(bytes: u64) -> u64 {
    bytes >> 20
}
