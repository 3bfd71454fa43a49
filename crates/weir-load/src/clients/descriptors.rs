//! Limit of open file descriptors, which bounds the clients of one process.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Returns the hard limit of file descriptors for this process and its child processes.
pub fn descriptors_allowed() -> u64 {
    getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX)
}

/// Raises the soft limit to the hard limit if `needed` exceeds the soft limit. Returns the soft
/// limit that is then in effect.
pub fn raise_descriptors(needed: u64) -> io::Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let (soft, hard) = (limit.current.unwrap_or(u64::MAX), limit.maximum);
    if soft >= needed || limit.current == hard {
        return Ok(soft);
    }
    let (current, maximum) = (hard, hard);
    setrlimit(Resource::Nofile, Rlimit { current, maximum })?;
    Ok(hard.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limit_stays_within_hard_limit() {
        let allowed = raise_descriptors(u64::MAX).unwrap();
        assert_eq!(allowed, descriptors_allowed());
        assert_eq!(raise_descriptors(1).unwrap(), allowed);
    }
}
