//! Counters that one thread writes and others read.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_mapping::FailureKind;

/// Value of an unknown metric of a connection, which is omitted.
pub(crate) const UNKNOWN: u64 = u64::MAX;

/// Counters of one worker, which alone writes them.
#[derive(Debug, Default)]
pub(crate) struct WorkerCounters {
    pub(crate) records: AtomicU64,
    pub(crate) record_bytes: AtomicU64,
    pub(crate) unrouted: AtomicU64,
    /// Records whose extraction failed, by the number of the [`FailureKind`].
    pub(crate) failed: [AtomicU64; FailureKind::ALL.len()],
    pub(crate) undecodable: AtomicU64,
    /// Undecodable records since the last one that could be decoded.
    pub(crate) undecodable_in_a_row: AtomicU64,
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
    /// Items whose snapshot was discarded because they were idle.
    pub(crate) snapshots_expired: AtomicU64,
}

/// Counters of a connection with a schema registry. Only its reading thread writes them, except for
/// the lookups.
#[derive(Debug, Default)]
pub(crate) struct SchemaCounters {
    /// Partitions that wait now.
    pub(crate) waiting: AtomicU64,
    /// Partitions that have waited.
    pub(crate) waits: AtomicU64,
    /// Time that partitions have waited.
    pub(crate) wait_us: AtomicU64,
    pub(crate) requests: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) unknown_ids: AtomicU64,
    pub(crate) from_files: AtomicU64,
}

impl WorkerCounters {
    /// Returns the number of records whose extraction failed.
    pub(crate) fn failed_in_all(&self) -> u64 {
        let failed = self.failed.iter();
        failed.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// Adds to a counter that only the calling thread writes.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}
