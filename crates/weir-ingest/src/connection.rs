//! One Kafka connection as seen by all threads: its mapping, the subscribed items and its state.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use weir_fanout::{ConnectionDiffs, Interest};
use weir_identity::rules::RecordSelection;
use weir_mapping::{ConnectionConfig, FailureKind, Threads};
use weir_tlcp::diff::DiffOptions;

use crate::cluster::Cluster;
use crate::counters::{SchemaCounters, UNKNOWN, WorkerCounters};
use crate::interest_inbox::InterestInbox;
use crate::read_back_queue::ReadBackQueue;
use crate::read_positions::ReadPositions;
use crate::schemas::ConnectionRegistry;
use crate::topic_rates::TopicReading;
use weir_net::lock;

/// State that the ingest threads write, and shards and administration read.
#[derive(Debug)]
pub struct KafkaConnection {
    /// Parameters and mapping.
    pub config: ConnectionConfig,
    /// Settings of the Kafka client.
    pub cluster: Cluster,
    /// Schema registry, if records name their schemas.
    pub registry: Option<ConnectionRegistry>,
    /// Fields that are sent as differences.
    pub diffs: ConnectionDiffs,
    /// Its workers; one if the polling thread maps the records.
    pub workers: Vec<WorkerHandle>,
    /// Counter of subscribed items.
    pub subscribed_items: SubscribedItems,
    /// The time after a restart in which subscriptions count as late.
    pub late: LateWindow,
    /// State of the reading thread.
    pub state: ConnectionState,
    /// Counters of the schema registry.
    pub schemas: SchemaCounters,
    /// Positions of the reading thread, for the ids of events.
    pub positions: ReadPositions,
    /// Requests to read records again, for clients that have missed them.
    pub read_back: ReadBackQueue,
    /// Expressions of item rules by whose values records are distinguished.
    pub record_selections: Vec<RecordSelection>,
}

/// Inbox and counters of a worker, for shards and administration.
#[derive(Debug, Default)]
pub struct WorkerHandle {
    /// Interests that shards have sent.
    pub interests: InterestInbox,
    /// Its counters.
    pub counters: WorkerCounters,
}

impl KafkaConnection {
    /// Creates a connection that is not read yet.
    pub fn new(
        config: ConnectionConfig,
        cluster: Cluster,
        registry: Option<ConnectionRegistry>,
        diffs: &DiffOptions,
    ) -> Self {
        let threads = match config.threads {
            Threads::Count(count) => count as usize,
            Threads::Processors => std::thread::available_parallelism().map_or(1, usize::from),
        };
        Self {
            config,
            cluster,
            registry,
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
            schemas: SchemaCounters::default(),
            positions: ReadPositions::default(),
            read_back: ReadBackQueue::default(),
            record_selections: Vec::new(),
        }
    }

    /// Sets the expressions of item rules by whose values records are distinguished.
    pub fn select_records(mut self, selections: Vec<RecordSelection>) -> Self {
        if !selections.is_empty() {
            let used = |one: &RecordSelection| one.is_used().then(|| one.expression.clone());
            let expressions: Vec<_> = selections.iter().map(used).collect();
            self.config.mapping.set_record_filters(&expressions);
            self.record_selections = selections;
        }
        self
    }

    /// Sends a shard's interest to all workers; see [`InterestInbox::put`]. After the first
    /// interests in items, the shard calls [`SubscribedItems::add`].
    pub fn set_interest(&self, interest: Interest, first: bool) {
        let withdrawn = interest.subscribed().is_none();
        for worker in &self.workers {
            worker.interests.put(interest.clone(), first);
        }
        if withdrawn {
            self.subscribed_items.remove();
        }
    }

    /// Returns the number of records whose extraction failed.
    pub fn failed_in_all(&self) -> u64 {
        let workers = self.workers.iter();
        workers.map(|worker| worker.counters.failed_in_all()).sum()
    }

    /// Returns the number of records whose extraction failed in one way.
    pub fn failed(&self, kind: FailureKind) -> u64 {
        let workers = self.workers.iter();
        let counts = workers.map(|worker| &worker.counters.failed[kind as usize]);
        counts.map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Returns the sum of a counter of all workers.
    pub fn total(&self, counter: fn(&WorkerCounters) -> &AtomicU64) -> u64 {
        let counters = self.workers.iter().map(|worker| counter(&worker.counters));
        counters.map(|value| value.load(Ordering::Relaxed)).sum()
    }
}

/// Number of items with interested shards, counted once per shard.
#[derive(Debug, Default)]
pub struct SubscribedItems {
    items: AtomicU64,
    /// `true` after the first subscription since the start.
    begun: AtomicBool,
    gate: Mutex<()>,
    came: Condvar,
}

impl SubscribedItems {
    /// Returns `true` if no item is subscribed.
    pub fn is_none(&self) -> bool {
        self.items.load(Ordering::SeqCst) == 0
    }

    /// Returns `true` if there was a subscription since the start; from then on no record is
    /// skipped.
    pub fn was_ever_subscribed(&self) -> bool {
        self.begun.load(Ordering::SeqCst)
    }

    /// Waits up to `timeout` for the first item.
    pub fn wait(&self, timeout: Duration) {
        let gate = lock(&self.gate);
        // A wake-up that is early or late does no harm: the caller checks again.
        let _ = (self.came).wait_timeout_while(gate, timeout, |()| self.is_none());
    }

    /// Counts the new items of a subscription. Reading may start with the first items, so a shard
    /// calls this once all interests of the subscription are in the inboxes: records that are read
    /// earlier would be missing from the others.
    pub fn add(&self, count: u64) {
        if count == 0 {
            return;
        }
        self.begun.store(true, Ordering::SeqCst);
        if self.items.fetch_add(count, Ordering::SeqCst) == 0 {
            drop(lock(&self.gate));
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
pub struct LateWindow {
    open: AtomicBool,
    /// Subscriptions that came late.
    pub subscriptions: AtomicU64,
}

impl LateWindow {
    /// Begins or ends the time.
    pub fn set_open(&self, is_open: bool) {
        self.open.store(is_open, Ordering::Release);
    }

    /// Returns `true` if subscriptions count as late now.
    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// Counts a subscription if it is late.
    pub fn note(&self) {
        if self.is_open() {
            self.subscriptions.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// State of the reading thread, which alone writes it.
#[derive(Debug, Default)]
pub struct ConnectionState {
    ready: AtomicBool,
    error: Mutex<Option<String>>,
    topics: Mutex<Vec<TopicReading>>,
    /// Errors of the Kafka client.
    pub source_errors: AtomicU64,
    /// Logins that brokers rejected.
    pub login_failures: AtomicU64,
    /// TLS handshakes with brokers that failed.
    pub tls_failures: AtomicU64,
    /// Records not read yet, or [`UNKNOWN`].
    pub lag: AtomicU64,
    /// Positions that were out of range.
    pub resets: AtomicU64,
    /// Of these, because a new leader lacked records.
    pub truncations: AtomicU64,
    /// Pauses that brokers asked for.
    pub throttled: AtomicU64,
    /// Their sum in microseconds.
    pub throttle_us: AtomicU64,
    /// Partitions read from followers.
    pub on_followers: AtomicU64,
    /// Commits that the broker has confirmed.
    pub commits: AtomicU64,
    /// Commits that failed.
    pub commit_errors: AtomicU64,
}

impl ConnectionState {
    /// Returns `true` if everything produced from now on will be delivered.
    pub fn ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// Returns the last error, if it still persists.
    pub fn error(&self) -> Option<String> {
        lock(&self.error).clone()
    }

    /// Returns the reading of each topic, some seconds old.
    pub fn topics(&self) -> Vec<TopicReading> {
        lock(&self.topics).clone()
    }

    pub(crate) fn set_topics(&self, topics: Vec<TopicReading>) {
        *lock(&self.topics) = topics;
    }

    /// Stores whether the connection is ready, and its last error.
    pub fn report(&self, ready: bool, error: Option<String>) {
        *lock(&self.error) = error;
        self.ready.store(ready, Ordering::Release);
    }
}
