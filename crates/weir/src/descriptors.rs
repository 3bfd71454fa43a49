//! The limit of open file descriptors. Every client connection needs one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open file descriptors to the hard limit and returns the new limit.
///
/// Child processes started afterwards inherit it.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::debug!(%error, "file descriptor limit not raised");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
