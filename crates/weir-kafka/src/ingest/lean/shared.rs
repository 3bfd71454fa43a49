//! State that the threads of a lean client share: partitions, brokers, and the queue of responses.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::super::state::IngestState;
use super::connection::Address;
use super::options::LeanOptions;
use crate::connect_error::ConnectError;
use crate::fetch::{BufferPool, FetchPlan, FetchedRecords, PartitionKey, PartitionTable};
use crate::secure::BrokerSecurity;

pub(super) struct LeanShared {
    pub(super) options: LeanOptions,
    pub(super) security: Arc<BrokerSecurity>,
    /// Errors and ends are reported here. Its lock is taken before the one of this state, so never
    /// while this state is locked.
    pub(super) ingest: Arc<IngestState>,
    pub(super) responses: Arc<BufferPool>,
    state: Mutex<LeanState>,
    /// Work for the fetch threads, or room in the queue.
    work: Condvar,
    /// An entry for the caller.
    arrived: Condvar,
}

#[derive(Default)]
pub(super) struct LeanState {
    pub(super) table: PartitionTable,
    pub(super) brokers: BTreeMap<i32, Address>,
    queue: VecDeque<QueueEntry>,
    queued_bytes: usize,
    stopping: bool,
    /// Brokers with a fetch thread.
    threads: BTreeSet<i32>,
    /// Open connections of the fetch threads.
    sockets: BTreeMap<i32, TcpStream>,
    ends_reported: Option<Instant>,
}

/// Entry for the caller, in the order of each partition.
#[derive(Debug)]
pub(crate) enum QueueEntry {
    Records(FetchedRecords),
    /// The position of a partition is out of range.
    OutOfRange {
        key: PartitionKey,
        generation: u64,
    },
    /// The log was truncated to an offset before the position of a partition.
    Truncated {
        key: PartitionKey,
        generation: u64,
        topic: Arc<str>,
        end: i64,
    },
}

impl QueueEntry {
    fn assignment(&self) -> (PartitionKey, u64) {
        match self {
            Self::Records(records) => (records.key, records.generation),
            Self::OutOfRange { key, generation }
            | Self::Truncated {
                key, generation, ..
            } => (*key, *generation),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Records(records) => records.range.len(),
            Self::OutOfRange { .. } | Self::Truncated { .. } => 0,
        }
    }
}

impl LeanState {
    /// Returns the brokers that partitions are read from and that had no fetch thread before.
    pub(super) fn nodes_without_thread(&mut self, now: Instant) -> Vec<i32> {
        let mut nodes: Vec<_> = self.table.nodes(now).into_iter().collect();
        nodes.retain(|node| self.threads.insert(*node));
        nodes
    }
}

impl LeanShared {
    pub(super) fn new(
        options: LeanOptions,
        security: Arc<BrokerSecurity>,
        ingest: &Arc<IngestState>,
    ) -> Self {
        Self {
            options,
            security,
            ingest: Arc::clone(ingest),
            responses: Arc::default(),
            state: Mutex::default(),
            work: Condvar::new(),
            arrived: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, LeanState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `change` under the lock.
    pub(super) fn with<R>(&self, change: impl FnOnce(&mut LeanState) -> R) -> R {
        change(&mut self.lock())
    }

    /// Runs `change` under the lock, then wakes the fetch threads.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut LeanState) -> R) -> R {
        let result = self.with(change);
        self.work.notify_all();
        result
    }

    /// Waits for work at a broker that is not due before `not_before`. Returns `None` if the thread
    /// must end.
    pub(super) fn wait_work(&self, node: i32, not_before: Option<Instant>) -> Option<FetchPlan> {
        let mut state = self.lock();
        loop {
            if state.stopping {
                return None;
            }
            let now = Instant::now();
            let mut wake_at = not_before.filter(|at| now < *at);
            if wake_at.is_none() && state.queued_bytes < self.options.queue_bytes_max {
                let plan = state.table.plan(node, now);
                if !plan.fetches.is_empty() || !plan.checks.is_empty() {
                    return Some(plan);
                }
                wake_at = plan.wake_at;
            }
            let wait = wake_at.map_or(IDLE_WAIT, |at| at.saturating_duration_since(now));
            let waited = self.work.wait_timeout(state, wait.min(IDLE_WAIT));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Queues entries for the caller.
    pub(super) fn queue(&self, entries: impl IntoIterator<Item = QueueEntry>) {
        let mut state = self.lock();
        let before = state.queue.len();
        for entry in entries {
            state.queued_bytes += entry.bytes();
            state.queue.push_back(entry);
        }
        if state.queue.len() > before {
            self.arrived.notify_all();
        }
    }

    /// Waits up to `timeout` for an entry of a partition that is still assigned.
    pub(super) fn take(&self, timeout: Duration) -> Option<QueueEntry> {
        let is_empty = |state: &mut LeanState| state.queue.is_empty() && !state.stopping;
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            while let Some(entry) = state.queue.pop_front() {
                let was_full = state.queued_bytes >= self.options.queue_bytes_max;
                state.queued_bytes -= entry.bytes();
                if was_full && state.queued_bytes < self.options.queue_bytes_max {
                    self.work.notify_all();
                }
                let (key, generation) = entry.assignment();
                if state.table.is_current(key, generation) {
                    return Some(entry);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.stopping {
                return None;
            }
            let waited = self.arrived.wait_timeout_while(state, left, is_empty);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Notes the connection of a fetch thread, which [`stop`](Self::stop) closes. Returns `false`
    /// if the thread must end.
    pub(super) fn note_socket(&self, node: i32, socket: TcpStream) -> bool {
        let mut state = self.lock();
        state.sockets.insert(node, socket);
        !state.stopping
    }

    /// Ends the fetch threads, including those that wait for a response.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.stopping = true;
        for socket in state.sockets.values() {
            // It fails if the broker has closed the connection.
            let _ = socket.shutdown(Shutdown::Both);
        }
        drop(state);
        self.work.notify_all();
        self.arrived.notify_all();
    }

    /// Reports the ends of partitions and the number of those that are read from followers, at most
    /// one report per `ENDS_INTERVAL`.
    pub(super) fn report_ends(&self) {
        let mut ends = Vec::new();
        let on_followers = self.with(|state| {
            let now = Instant::now();
            let last = state.ends_reported;
            if last.is_some_and(|last| now.duration_since(last) < ENDS_INTERVAL) {
                return None;
            }
            state.ends_reported = Some(now);
            let all = state.table.ends();
            ends.extend(all.map(|(topic, partition, end)| (topic.to_owned(), partition, end)));
            Some(state.table.on_followers(now))
        });
        if let Some(count) = on_followers {
            self.ingest.note_on_followers(count);
        }
        for (topic, partition, end) in ends {
            self.ingest.note_fetched_end(&topic, partition, end);
        }
    }

    /// Reports a failed connection and requests new metadata.
    pub(super) fn note_failure(&self, error: ConnectError) {
        if self.with(|state| state.stopping) {
            return;
        }
        match error.is_permanent() || error.is_login_failure() {
            true => self.ingest.note_refusal(error),
            false => self.ingest.note_error(error.to_string()),
        }
        self.ingest.probe_soon();
    }
}

/// Longest wait of a fetch thread without work; it is woken when there is some.
const IDLE_WAIT: Duration = Duration::from_secs(60);
const ENDS_INTERVAL: Duration = Duration::from_millis(250);
