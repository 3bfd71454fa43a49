//! File descriptors: every client is one, so the limit is raised as far as the system allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit of open descriptors to the hard one, also for processes started from here
/// on, and returns it.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let wanted = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        tracing::debug!(%error, "descriptor limit not raised");
    }
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
