//! File descriptors kept back from clients, for the admin port, logs, files and broker connections.

use std::os::fd::RawFd;

use rustix::process::{Resource, getrlimit};

/// Descriptors that clients leave free, where the limit allows for so many.
const RESERVED: u64 = 64;

/// Returns the first descriptor number that a client's connection must not have. The system gives out
/// the lowest free number, so one at or above it means that fewer than 64 are left (a quarter of the
/// limit where that is less); nothing has to be counted.
pub fn client_ceiling() -> RawFd {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    ceiling(limit)
}

fn ceiling(limit: u64) -> RawFd {
    let reserved = RESERVED.min(limit / 4);
    RawFd::try_from(limit - reserved).unwrap_or(RawFd::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_kept_back() {
        assert_eq!(ceiling(1_024), 960);
        assert_eq!(ceiling(100), 75);
        assert_eq!(ceiling(u64::MAX), RawFd::MAX);
        assert!(client_ceiling() > 0);
    }
}
