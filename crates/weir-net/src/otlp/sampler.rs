//! Selection of the requests to trace: one in N, and those that their sender has marked, up to a
//! limit per second.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use super::counters::{OtlpCounters, add};
use super::span::{ActiveTrace, SpanQueue, TraceParent, random};

/// Source of samplers, one for each thread.
#[derive(Debug, Clone)]
pub struct TraceSource {
    pub(super) queue: SpanQueue,
    pub(super) one_in: u64,
    pub(super) quota: Arc<TraceQuota>,
}

impl TraceSource {
    /// Creates the sampler of a thread. Its count starts at a random value, so that the samplers of
    /// several threads do not select at the same time.
    pub fn sampler(&self) -> Sampler {
        Sampler {
            until_next: AtomicU64::new(1 + random().checked_rem(self.one_in).unwrap_or(0)),
            source: self.clone(),
        }
    }

    /// Returns the counters of the export.
    pub fn counters(&self) -> &Arc<OtlpCounters> {
        &self.queue.counters
    }
}

/// Selects one in N candidates, and all marked ones.
#[derive(Debug)]
pub struct Sampler {
    source: TraceSource,
    /// Number of candidates up to the next selected one. Only one thread changes it.
    until_next: AtomicU64,
}

impl Sampler {
    /// Returns a new trace if this candidate is selected: as one in N, or because the header that
    /// `mark` reads is marked as sampled.
    #[inline]
    pub fn select(&self, mark: impl FnOnce() -> Option<TraceParent>) -> Option<ActiveTrace> {
        let left = self.until_next.load(Ordering::Relaxed) - 1;
        self.until_next.store(left, Ordering::Relaxed);
        let link = mark();
        let is_marked = link.is_some_and(|parent| parent.is_sampled);
        if left > 0 && !is_marked {
            return None;
        }
        self.begin(link)
    }

    #[cold]
    fn begin(&self, link: Option<TraceParent>) -> Option<ActiveTrace> {
        let is_marked = link.is_some_and(|parent| parent.is_sampled);
        let one_in = self.source.one_in;
        if self.until_next.load(Ordering::Relaxed) == 0 {
            let left = if one_in == 0 { u64::MAX } else { one_in };
            self.until_next.store(left, Ordering::Relaxed);
        }
        // Without a rate, reaching 0 selects nothing.
        if one_in == 0 && !is_marked {
            return None;
        }
        let queue = &self.source.queue;
        if !self.source.quota.take() {
            add(&queue.counters.limited, 1);
            return None;
        }
        Some(ActiveTrace::new(queue.clone(), link))
    }
}

/// Limit of traces per second, for all threads.
#[derive(Debug)]
pub(super) struct TraceQuota {
    epoch: Instant,
    per_second: u32,
    /// Upper half: current second since the epoch. Lower half: number of traces that began in it.
    used: AtomicU64,
}

impl TraceQuota {
    pub(super) fn new(per_second: u32) -> Self {
        Self {
            epoch: Instant::now(),
            per_second,
            used: AtomicU64::new(0),
        }
    }

    fn take(&self) -> bool {
        self.take_in(self.epoch.elapsed().as_secs())
    }

    fn take_in(&self, second: u64) -> bool {
        let per_second = u64::from(self.per_second);
        let count = |used: u64| {
            let traces = if used >> 32 == second { used & MASK } else { 0 };
            (traces < per_second).then_some(second << 32 | (traces + 1))
        };
        let updated = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        updated.is_ok()
    }
}

/// Bits of [`TraceQuota::used`] that count traces.
const MASK: u64 = u32::MAX as u64;

#[cfg(test)]
mod tests {
    use super::*;

    fn source(
        one_in: u64,
        per_second: u32,
    ) -> (TraceSource, crossbeam_channel::Receiver<super::super::Span>) {
        let (spans, received) = crossbeam_channel::bounded(10_000);
        let source = TraceSource {
            queue: SpanQueue {
                spans,
                counters: Arc::default(),
            },
            one_in,
            quota: Arc::new(TraceQuota::new(per_second)),
        };
        (source, received)
    }

    fn parent(flags: &str) -> Option<TraceParent> {
        let text = format!("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-{flags}");
        TraceParent::parse(text.as_bytes())
    }

    #[test]
    fn one_in_n_is_selected() {
        let (source, _received) = source(10, 1_000_000);
        let sampler = source.sampler();
        let selected: Vec<_> = (0..100)
            .filter(|_| sampler.select(|| None).is_some())
            .collect();
        assert_eq!(selected.len(), 10);
        assert!(selected.windows(2).all(|two| two[1] - two[0] == 10));
    }

    #[test]
    fn marked_candidates_are_selected_without_rate() {
        let (source, received) = source(0, 1_000_000);
        let sampler = source.sampler();
        let selected = |sampler: &Sampler, flags| {
            (0..50)
                .filter(|_| sampler.select(|| parent(flags)).is_some())
                .count()
        };
        assert_eq!(selected(&sampler, "00"), 0);
        assert_eq!(selected(&sampler, "01"), 50);
        assert_eq!(
            received
                .try_iter()
                .filter(|span| span.link == parent("01"))
                .count(),
            50
        );
    }

    #[test]
    fn traces_per_second_are_limited() {
        let (source, _received) = source(1, 3);
        let sampler = source.sampler();
        let quota = &source.quota;
        assert_eq!((0..10).filter(|_| quota.take_in(7)).count(), 3);
        assert_eq!((0..10).filter(|_| quota.take_in(8)).count(), 3);
        let count = (0..1_000)
            .filter(|_| sampler.select(|| None).is_some())
            .count();
        let limited = source.counters().limited.load(Ordering::Relaxed);
        assert_eq!(count as u64 + limited, 1_000);
        assert!((3..=60).contains(&count), "{count}");
    }
}
