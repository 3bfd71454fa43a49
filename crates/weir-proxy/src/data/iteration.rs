//! Limits on the work of a pair in one iteration of an event loop.

/// Maximum reads of one pair per iteration.
const READS_PER_ITERATION: usize = 8;

/// Bytes that all pairs may read in one iteration. This keeps an iteration below about 10 ms even
/// if all bytes are copied to new memory.
const BYTES_PER_ITERATION: usize = 8 << 20;

/// Maximum requests of one pair per iteration. One read can contain tens of thousands of requests
/// to which the proxy itself responds.
const REQUESTS_PER_PAIR: usize = 1_000;

/// Requests of all pairs in one iteration.
const REQUESTS_PER_ITERATION: usize = 4_000;

/// Number of pairs that together stay within the limits of an iteration.
const FEW_PAIRS: usize = 4;

/// Maximum bytes of one read.
pub(super) const READ_BYTES: usize = 256 * 1024;

/// Maximum bytes of one read for a slow peer. Bytes that the peer does not accept must be stored.
const READ_BYTES_SLOW_PEER: usize = 64 * 1024;

/// Maximum bytes of one read if very many pairs are busy.
const READ_BYTES_CROWDED: usize = 32 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IterationLimits {
    pub(super) reads: u32,
    pub(super) requests: u64,
    pub(super) read_bytes: usize,
}

impl IterationLimits {
    /// Limits of a few pairs, which do not need to share.
    const FEW: Self = Self {
        reads: READS_PER_ITERATION as u32,
        requests: REQUESTS_PER_PAIR as u64,
        read_bytes: READ_BYTES,
    };

    /// Divides an iteration among `busy` pairs, because each of them waits for all others.
    pub(super) fn share(busy: usize) -> Self {
        match busy {
            // Saves the divisions.
            0..=FEW_PAIRS => Self::FEW,
            _ => Self::divide(busy),
        }
    }

    fn divide(busy: usize) -> Self {
        let share = BYTES_PER_ITERATION / busy.max(1);
        Self {
            reads: (share / READ_BYTES).clamp(1, READS_PER_ITERATION) as u32,
            requests: (REQUESTS_PER_ITERATION / busy.max(1)).clamp(1, REQUESTS_PER_PAIR) as u64,
            read_bytes: share.clamp(READ_BYTES_CROWDED, READ_BYTES),
        }
    }
}

pub(super) fn read_bytes_for(read_backoff: u8) -> usize {
    if read_backoff == 0 {
        READ_BYTES
    } else {
        READ_BYTES_SLOW_PEER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn iteration_bytes_are_bounded_for_many_pairs() {
        for busy in [0, 1, 4, 5, 31, 32, 100, 256] {
            let limits = IterationLimits::share(busy);
            let bytes = busy * limits.reads as usize * limits.read_bytes;
            assert!(bytes <= BYTES_PER_ITERATION, "{busy}: {limits:?}");
        }
        for few in 0..=FEW_PAIRS {
            assert_eq!(IterationLimits::divide(few), IterationLimits::FEW);
        }
        let many = IterationLimits::share(10_000);
        assert_eq!((many.reads, many.read_bytes), (1, READ_BYTES_CROWDED));
    }
}
