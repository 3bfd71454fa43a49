//! Counters of a connection to an adapter, read by any thread.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_identity::ari::AdapterMethod;

use crate::outcome::{AdapterFailure, AdapterOutcome};

/// Outcome of a request, as metrics name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)] // the names are the values of the label
pub enum RequestOutcome {
    Ok,
    Exception,
    Invalid,
    Down,
    Timeout,
    Overloaded,
}

impl RequestOutcome {
    /// All outcomes.
    pub const ALL: [Self; 6] = [
        Self::Ok,
        Self::Exception,
        Self::Invalid,
        Self::Down,
        Self::Timeout,
        Self::Overloaded,
    ];

    /// Returns the value of the label.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Exception => "exception",
            Self::Invalid => "invalid",
            Self::Down => "down",
            Self::Timeout => "timeout",
            Self::Overloaded => "overloaded",
        }
    }

    fn of(outcome: &AdapterOutcome) -> Self {
        match outcome {
            Ok(_) => Self::Ok,
            Err(AdapterFailure::Exception(_)) => Self::Exception,
            Err(AdapterFailure::Invalid(_)) => Self::Invalid,
            Err(AdapterFailure::Down) => Self::Down,
            Err(AdapterFailure::Timeout) => Self::Timeout,
            Err(AdapterFailure::Overloaded) => Self::Overloaded,
        }
    }
}

const METHODS: usize = AdapterMethod::ALL.len();
const OUTCOMES: usize = RequestOutcome::ALL.len();
const BUCKETS: usize = LatencySnapshot::BOUNDS_MS.len();

#[derive(Debug, Default)]
struct MethodCounters {
    outcomes: [AtomicU64; OUTCOMES],
    buckets: [AtomicU64; BUCKETS],
    replies: AtomicU64,
    reply_ms: AtomicU64,
}

/// Counters of a connection to an adapter.
#[derive(Debug, Default)]
pub struct AdapterMetrics {
    connected: AtomicBool,
    generation: AtomicU64,
    pending: AtomicU64,
    closes_queued: AtomicU64,
    closes_dropped: AtomicU64,
    late_replies: AtomicU64,
    methods: [MethodCounters; METHODS],
}

/// Times until replies arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LatencySnapshot {
    /// Number of replies up to each of [`Self::BOUNDS_MS`], not cumulative.
    pub buckets: [u64; BUCKETS],
    /// Number of replies.
    pub count: u64,
    /// Sum of the times in milliseconds.
    pub sum_ms: u64,
}

impl LatencySnapshot {
    /// Upper bounds of the buckets in milliseconds.
    pub const BOUNDS_MS: [u64; 8] = [1, 5, 10, 50, 100, 500, 1_000, 3_000];
}

/// Counters of one method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MethodSnapshot {
    /// Method.
    pub method: AdapterMethod,
    /// Number of requests by [`RequestOutcome::ALL`].
    pub outcomes: [u64; OUTCOMES],
    /// Times until replies.
    pub latency: LatencySnapshot,
}

impl AdapterMetrics {
    /// Returns `true` if an adapter is connected and ready.
    pub fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Acquire)
    }

    /// Returns the number of adapters that have been ready. What an adapter has said about items is
    /// valid until the number changes.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the number of requests that wait for a reply.
    pub fn pending(&self) -> u64 {
        self.pending.load(Ordering::Relaxed)
    }

    /// Returns the number of close notifications that wait, and of those that were dropped.
    pub fn closes(&self) -> [u64; 2] {
        [&self.closes_queued, &self.closes_dropped].map(|count| count.load(Ordering::Relaxed))
    }

    /// Returns the number of replies that came after their deadline.
    pub fn late_replies(&self) -> u64 {
        self.late_replies.load(Ordering::Relaxed)
    }

    /// Returns the counters of all methods.
    pub fn methods(&self) -> impl Iterator<Item = MethodSnapshot> + '_ {
        let all = AdapterMethod::ALL.into_iter().zip(&self.methods);
        all.map(|(method, counters)| MethodSnapshot {
            method,
            outcomes: load(&counters.outcomes),
            latency: LatencySnapshot {
                buckets: load(&counters.buckets),
                count: counters.replies.load(Ordering::Relaxed),
                sum_ms: counters.reply_ms.load(Ordering::Relaxed),
            },
        })
    }

    /// Counts an outcome.
    pub(crate) fn count(&self, method: AdapterMethod, outcome: &AdapterOutcome) {
        let index = RequestOutcome::of(outcome) as usize;
        self.of(method).outcomes[index].fetch_add(1, Ordering::Relaxed);
    }

    /// Records the time until a reply.
    pub(crate) fn replied(&self, method: AdapterMethod, elapsed_ms: u64) {
        let counters = self.of(method);
        let bucket = LatencySnapshot::BOUNDS_MS.partition_point(|bound| *bound < elapsed_ms);
        if let Some(bucket) = counters.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        counters.replies.fetch_add(1, Ordering::Relaxed);
        counters.reply_ms.fetch_add(elapsed_ms, Ordering::Relaxed);
    }

    pub(crate) fn late_reply(&self) {
        self.late_replies.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn set_connected(&self, connected: bool) {
        if connected {
            self.generation.fetch_add(1, Ordering::Release);
        }
        self.connected.store(connected, Ordering::Release);
    }

    pub(crate) fn set_queues(&self, pending: usize, closes: usize) {
        self.pending.store(pending as u64, Ordering::Relaxed);
        self.closes_queued.store(closes as u64, Ordering::Relaxed);
    }

    pub(crate) fn close_dropped(&self) {
        self.closes_dropped.fetch_add(1, Ordering::Relaxed);
    }

    fn of(&self, method: AdapterMethod) -> &MethodCounters {
        &self.methods[method as usize]
    }
}

fn load<const N: usize>(counts: &[AtomicU64; N]) -> [u64; N] {
    std::array::from_fn(|index| counts[index].load(Ordering::Relaxed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_and_times_are_counted_by_method() {
        let metrics = AdapterMetrics::default();
        let method = AdapterMethod::GetItems;
        metrics.count(method, &Err(AdapterFailure::Timeout));
        for elapsed_ms in [0, 1, 7, 3_000, 9_000] {
            metrics.replied(method, elapsed_ms);
        }
        let all: Vec<_> = metrics.methods().collect();
        for (one, method) in all.iter().zip(AdapterMethod::ALL) {
            assert_eq!(one.method, method);
        }
        let one = all.iter().find(|one| one.method == method).unwrap();
        let timeout = RequestOutcome::Timeout as usize;
        assert_eq!((one.outcomes[timeout], one.outcomes.iter().sum()), (1, 1));
        assert_eq!(one.latency.buckets, [2, 0, 1, 0, 0, 0, 0, 1]);
        assert_eq!((one.latency.count, one.latency.sum_ms), (5, 12_008));
        assert!(RequestOutcome::ALL[timeout] == RequestOutcome::Timeout);
    }
}
