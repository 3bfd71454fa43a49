//! One Kafka connection as all threads see it: its mapping, its wish list, its state.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::Sender;
use weir_mapping::ConnectionConfig;

use crate::routing::Wish;

/// Shared by the ingest thread (writes), the shards (resolve names, post wishes) and
/// administration (reads the state).
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) config: ConnectionConfig,
    /// Bounded; a shard that finds it full keeps its wish and tries again.
    pub(crate) wishes: Sender<Wish>,
    pub(crate) state: ConnectionState,
}

/// What the ingest thread has seen; counters are written by it alone.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    ready: AtomicBool,
    error: Mutex<Option<String>>,
    pub(crate) records: AtomicU64,
    pub(crate) record_bytes: AtomicU64,
    pub(crate) unrouted: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) unnameable: AtomicU64,
    pub(crate) updates: AtomicU64,
    pub(crate) shard_waits: AtomicU64,
    pub(crate) source_errors: AtomicU64,
    pub(crate) lag: AtomicU64,
    pub(crate) items: AtomicU64,
}

impl ConnectionState {
    /// Whether everything produced from now on will be delivered.
    pub(crate) fn ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// The last trouble, if it still stands.
    pub(crate) fn error(&self) -> Option<String> {
        self.error.lock().ok().and_then(|error| error.clone())
    }

    pub(crate) fn report(&self, ready: bool, error: Option<String>) {
        if let Ok(mut last) = self.error.lock() {
            *last = error;
        }
        self.ready.store(ready, Ordering::Release);
    }
}

/// Adds to a counter that only the calling thread writes.
pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}
