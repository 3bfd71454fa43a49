//! State shared by threads: counters that one thread writes and others read, and locks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Value of an unknown metric of a connection, which is omitted.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// Counters of one worker, which alone writes them.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounters {
    pub(crate) records: AtomicU64,
    pub(crate) record_bytes: AtomicU64,
    pub(crate) unrouted: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) undecodable: AtomicU64,
    pub(crate) unnameable: AtomicU64,
    pub(crate) late_records: AtomicU64,
    pub(crate) updates: AtomicU64,
    pub(crate) shard_waits: AtomicU64,
    /// Updates that shards did not accept before the end.
    pub(crate) undelivered: AtomicU64,
    pub(crate) items: AtomicU64,
    /// Items with a stored last record, their memory, and the number of evicted ones.
    pub(crate) last_values: AtomicU64,
    pub(crate) last_value_bytes: AtomicU64,
    pub(crate) last_values_evicted: AtomicU64,
}

/// Adds to a counter that only the calling thread writes.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

/// Locks a mutex under which no code can panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
