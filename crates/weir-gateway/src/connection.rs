//! One Kafka connection as seen by all threads: its mapping, the subscribed items and its state.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use weir_mapping::{ConnectionConfig, Threads};
use weir_tlcp::diff::DiffOptions;

use crate::counters::{UNKNOWN, WorkerCounters};
use crate::diffs::ConnectionDiffs;
use crate::ingest::InterestInbox;
use crate::interest::Interest;

/// State shared by the ingest threads (writers), the shards (resolve names, set interests) and
/// administration (reads the state).
#[derive(Debug)]
pub(crate) struct KafkaConnection {
    pub(crate) config: ConnectionConfig,
    /// Diff formats of its values.
    pub(crate) diffs: ConnectionDiffs,
    pub(crate) workers: Vec<WorkerHandle>,
    pub(crate) subscribed_items: SubscribedItems,
    pub(crate) late: LateWindow,
    pub(crate) state: ConnectionState,
}

/// One ingest worker as seen by other threads.
#[derive(Debug, Default)]
pub(crate) struct WorkerHandle {
    pub(crate) interests: InterestInbox,
    pub(crate) counters: WorkerCounters,
}

impl KafkaConnection {
    pub(crate) fn new(config: ConnectionConfig, diffs: &DiffOptions) -> Self {
        let threads = match config.threads {
            Threads::Count(count) => count as usize,
            Threads::Processors => std::thread::available_parallelism().map_or(1, usize::from),
        };
        Self {
            config,
            diffs: ConnectionDiffs::new(diffs),
            workers: (0..threads.max(1))
                .map(|_| WorkerHandle::default())
                .collect(),
            subscribed_items: SubscribedItems::default(),
            late: LateWindow::default(),
            state: ConnectionState {
                lag: AtomicU64::new(UNKNOWN),
                ..ConnectionState::default()
            },
        }
    }

    /// Sends a shard's interest to all workers. `first` means that the shard had no interest in the
    /// item before.
    pub(crate) fn set_interest(&self, interest: Interest, first: bool) {
        let withdrawn = interest.wanted().is_none();
        for worker in &self.workers {
            worker.interests.put(interest.clone(), first);
        }
        // After the interests, so that a thread that sees the count finds them in the inboxes.
        if first {
            self.subscribed_items.add();
        } else if withdrawn {
            self.subscribed_items.remove();
        }
    }

    pub(crate) fn total(&self, counter: fn(&WorkerCounters) -> &AtomicU64) -> u64 {
        let counters = self.workers.iter().map(|worker| counter(&worker.counters));
        counters.map(|value| value.load(Ordering::Relaxed)).sum()
    }
}

/// Number of items with interested shards, counted once per shard.
#[derive(Debug, Default)]
pub(crate) struct SubscribedItems {
    items: AtomicU64,
    /// `true` after the first subscription since the start.
    begun: AtomicBool,
    gate: Mutex<()>,
    came: Condvar,
}

impl SubscribedItems {
    pub(crate) fn is_none(&self) -> bool {
        self.items.load(Ordering::SeqCst) == 0
    }

    /// Returns `true` if there was a subscription since the start; from then on no record is
    /// skipped.
    pub(crate) fn was_ever_subscribed(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    /// Waits up to `timeout` for the first item.
    pub(crate) fn wait(&self, timeout: Duration) {
        let gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        // A wake-up that is early or late does no harm: the caller checks again.
        let _ = (self.came).wait_timeout_while(gate, timeout, |()| self.is_none());
    }

    fn add(&self) {
        self.begun.store(true, Ordering::SeqCst);
        if self.items.fetch_add(1, Ordering::SeqCst) == 0 {
            drop(self.gate.lock().unwrap_or_else(PoisonError::into_inner));
            self.came.notify_all();
        }
    }

    fn remove(&self) {
        self.items.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The time after a restart from stored offsets in which subscriptions count as late, because
/// reading started without them.
#[derive(Debug, Default)]
pub(crate) struct LateWindow {
    open: AtomicBool,
    /// Number of items subscribed late.
    pub(crate) subscriptions: AtomicU64,
}

impl LateWindow {
    pub(crate) fn set_open(&self, is_open: bool) {
        self.open.store(is_open, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Counts a subscription to an item if it is late.
    pub(crate) fn note(&self) {
        if self.is_open() {
            self.subscriptions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// State of the reading thread, which alone writes it.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    ready: AtomicBool,
    error: Mutex<Option<String>>,
    pub(crate) source_errors: AtomicU64,
    /// Records not read yet, or [`UNKNOWN`].
    pub(crate) lag: AtomicU64,
    pub(crate) resets: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) commit_errors: AtomicU64,
}

impl ConnectionState {
    /// Returns `true` if everything produced from now on will be delivered.
    pub(crate) fn ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Returns the last error, if it still persists.
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
