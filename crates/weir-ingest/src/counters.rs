//! Counters that one thread writes and others read.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_mapping::FailureKind;

/// Value of an unknown metric of a connection, which is omitted.
pub const UNKNOWN: u64 = u64::MAX;

/// Counters of one worker, which alone writes them.
#[derive(Debug, Default)]
pub struct WorkerCounters {
    /// Records that were mapped.
    pub records: AtomicU64,
    /// Bytes of their values.
    pub record_bytes: AtomicU64,
    /// Records of no subscribed item.
    pub unrouted: AtomicU64,
    /// Records whose extraction failed, by the number of the [`FailureKind`].
    pub failed: [AtomicU64; FailureKind::ALL.len()],
    /// Records that could not be decoded.
    pub undecodable: AtomicU64,
    /// Undecodable records since the last one that could be decoded.
    pub undecodable_in_a_row: AtomicU64,
    /// Item names that are not valid.
    pub unnameable: AtomicU64,
    /// Records of an item that were read before its first subscription after a restart.
    pub late_records: AtomicU64,
    /// Updates posted to shards.
    pub updates: AtomicU64,
    /// Waits for a full inbox of a shard.
    pub shard_waits: AtomicU64,
    /// Updates that shards did not accept before the end.
    pub undelivered: AtomicU64,
    /// Items with a route.
    pub items: AtomicU64,
    /// Items with a stored last record.
    pub last_values: AtomicU64,
    /// Memory of these records in bytes.
    pub last_value_bytes: AtomicU64,
    /// Items whose last record was removed because memory was short.
    pub last_values_evicted: AtomicU64,
    /// Items whose snapshot was discarded because they were idle.
    pub snapshots_expired: AtomicU64,
}

/// Counters of a connection with a schema registry. Only its reading thread writes them, except for
/// the lookups.
#[derive(Debug, Default)]
pub struct SchemaCounters {
    /// Partitions that wait now.
    pub waiting: AtomicU64,
    /// Partitions that have waited.
    pub waits: AtomicU64,
    /// Time that partitions have waited, in microseconds.
    pub wait_us: AtomicU64,
    /// Requests to the registry.
    pub requests: AtomicU64,
    /// Requests that failed.
    pub failures: AtomicU64,
    /// Ids that the registry does not know.
    pub unknown_ids: AtomicU64,
    /// Schemas read from files.
    pub from_files: AtomicU64,
}

impl WorkerCounters {
    /// Returns the number of records whose extraction failed.
    pub fn failed_in_all(&self) -> u64 {
        let failed = self.failed.iter();
        failed.map(|count| count.load(Ordering::Relaxed)).sum()
    }
}

/// Adds to a counter that only the calling thread writes.
pub fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}
