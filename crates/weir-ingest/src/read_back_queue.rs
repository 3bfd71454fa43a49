//! Requests of shards that wait for the reading thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use weir_net::lock;

use crate::missed::ReadBackRequest;

/// Maximum number of waiting requests of a Kafka connection.
const WAITING_MAX: usize = 10_000;

/// Limits of reading records again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadBackLimits {
    /// Maximum number of records per client and item.
    pub records: u64,
    /// Maximum number of records per second, of all clients of a Kafka connection.
    pub records_per_second: u32,
}

impl Default for ReadBackLimits {
    fn default() -> Self {
        Self {
            records: 10_000,
            records_per_second: 50_000,
        }
    }
}

/// Waiting requests of a Kafka connection, and what its thread has read.
#[derive(Debug, Default)]
pub struct ReadBackQueue {
    /// Limits, which do not change while the connection is read.
    pub limits: ReadBackLimits,
    is_waiting: AtomicBool,
    waiting: Mutex<VecDeque<ReadBackRequest>>,
    came: Condvar,
    /// Records that were read again.
    pub records: AtomicU64,
    /// Ranges of partitions that were read, each for any number of requests.
    pub reads: AtomicU64,
}

impl ReadBackQueue {
    /// Adds a request. Returns `false` if too many are waiting.
    #[must_use]
    pub fn push(&self, request: ReadBackRequest) -> bool {
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= WAITING_MAX {
            return false;
        }
        waiting.push_back(request);
        self.is_waiting.store(true, Ordering::Release);
        self.came.notify_one();
        true
    }

    /// Returns `true` if a request waits.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Acquire)
    }

    /// Waits up to `timeout` for requests, and takes all with the partitions of the first one.
    pub(crate) fn take(&self, timeout: Duration) -> Vec<ReadBackRequest> {
        let waiting = lock(&self.waiting);
        let waited = (self.came).wait_timeout_while(waiting, timeout, |all| all.is_empty());
        let (mut waiting, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(generation) = waiting.front().map(|one| one.layout.generation()) else {
            return Vec::new();
        };
        let all = std::mem::take(&mut *waiting).into_iter();
        let (taken, others) = all.partition(|one| one.layout.generation() == generation);
        *waiting = others;
        self.is_waiting
            .store(!waiting.is_empty(), Ordering::Release);
        Vec::from(taken)
    }
}
