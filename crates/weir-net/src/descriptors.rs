//! File descriptors reserved for the admin port, logs, files and broker connections.

use std::os::fd::RawFd;

use rustix::process::{Resource, getrlimit};

/// Number of file descriptors that client connections leave free, if the limit is high enough.
const RESERVED: u64 = 64;

/// Returns the lowest file descriptor that a client's connection must not use.
///
/// The system assigns the lowest free number. So a number at or above the limit means that fewer
/// than 64 file descriptors are left, or a quarter of the limit if that is less. Nothing has to be
/// counted.
pub fn client_limit() -> RawFd {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    limit_for_clients(limit)
}

fn limit_for_clients(limit: u64) -> RawFd {
    let reserved = RESERVED.min(limit / 4);
    RawFd::try_from(limit - reserved).unwrap_or(RawFd::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_reserved() {
        assert_eq!(limit_for_clients(1_024), 960);
        assert_eq!(limit_for_clients(100), 75);
        assert_eq!(limit_for_clients(u64::MAX), RawFd::MAX);
        assert!(client_limit() > 0);
    }
}
