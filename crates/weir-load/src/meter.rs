//! Latency histograms of a worker process, reported as intervals of about one second.

use weir_stats::Histogram;

use crate::share::WorkerShare;
use crate::stamp::Stamp;
use crate::worker::protocol::{LatencyInterval, LatencyTag, Schedule, WorkerEvent};
use crate::worker::{Counters, EventSender};

/// Latency histograms since the last report, one per tag.
#[derive(Debug)]
pub(crate) struct Intervals<const N: usize> {
    tags: [LatencyTag; N],
    pub(crate) histograms: [Histogram; N],
    /// Values of the last second, for progress displays. Unlike `histograms`, it is not limited to
    /// the measured window.
    pub(crate) second: Histogram,
    from_unix_ns: u64,
    /// Share of the role's work that this process has. If there are other shares, progress reports
    /// contain `second` itself, so that the coordinator can merge it with theirs.
    pub(crate) share: WorkerShare,
}

impl<const N: usize> Intervals<N> {
    pub(crate) fn new(tags: [LatencyTag; N], now_unix_ns: u64) -> Self {
        Self {
            tags,
            histograms: [(); N].map(|()| Histogram::new()),
            second: Histogram::new(),
            from_unix_ns: now_unix_ns,
            share: WorkerShare::WHOLE,
        }
    }

    /// Sends the nonempty intervals and the progress, and starts a new interval.
    pub(crate) fn report(
        &mut self,
        events: &EventSender,
        now_unix_ns: u64,
        counters: Counters<'_>,
    ) {
        for (tag, histogram) in self.tags.into_iter().zip(&mut self.histograms) {
            if !histogram.is_empty() {
                events.send(&WorkerEvent::Interval(LatencyInterval {
                    from_unix_ns: self.from_unix_ns,
                    until_unix_ns: now_unix_ns,
                    tag,
                    histogram: histogram.to_base64(),
                }));
                histogram.clear();
            }
        }
        let second = Some(&mut self.second);
        let is_share = self.share != WorkerShare::WHOLE;
        events.progress(now_unix_ns, counters, second, is_share);
        self.from_unix_ns = now_unix_ns;
    }
}

/// Latencies and counters of all clients of a process.
#[derive(Debug)]
pub struct DeliveryRecorder {
    intervals: Intervals<4>,
    /// Number of deliveries.
    pub(crate) updates: u64,
    /// Number of deliveries that were due in the measured window.
    pub(crate) in_window: u64,
    /// Number of arrivals before their due time, because clocks disagree.
    pub(crate) early: u64,
}

const TAGS: [LatencyTag; 4] = [
    LatencyTag::Response,
    LatencyTag::Service,
    LatencyTag::StoredToClient,
    LatencyTag::StateAge,
];

impl DeliveryRecorder {
    /// Creates a recorder whose first interval starts at `now_unix_ns`.
    pub fn new(now_unix_ns: u64) -> Self {
        Self {
            intervals: Intervals::new(TAGS, now_unix_ns),
            updates: 0,
            in_window: 0,
            early: 0,
        }
    }

    /// Sets the share of the role's work that this process has.
    pub(crate) fn with_share(mut self, share: WorkerShare) -> Self {
        self.intervals.share = share;
        self
    }

    /// Counts one delivery received at `at_unix_ns`. Returns its response time if it was due in the
    /// measured window.
    pub fn record(
        &mut self,
        due_unix_ns: u64,
        stamp: Option<&Stamp>,
        at_unix_ns: u64,
        schedule: Option<&Schedule>,
    ) -> Option<u64> {
        self.early += u64::from(at_unix_ns < due_unix_ns);
        let response_ns = at_unix_ns.saturating_sub(due_unix_ns);
        self.intervals.second.record_ns(response_ns);
        if !self.record_background(due_unix_ns, schedule) {
            return None;
        }
        let [response, service, ..] = &mut self.intervals.histograms;
        response.record_ns(response_ns);
        if let Some(sent_unix_ns) = stamp.and_then(|stamp| stamp.sent_unix_ns) {
            service.record_ns(at_unix_ns.saturating_sub(sent_unix_ns));
        }
        Some(response_ns)
    }

    /// Records the time from the Kafka timestamp of a record to its arrival. The timestamp is
    /// truncated to milliseconds, so half a millisecond is added to it.
    pub(crate) fn record_stored(&mut self, stored_ms: u64, at_unix_ns: u64) {
        let stored_unix_ns = stored_ms.saturating_mul(1_000_000).saturating_add(500_000);
        let [_, _, stored, _] = &mut self.intervals.histograms;
        stored.record_ns(at_unix_ns.saturating_sub(stored_unix_ns));
    }

    /// Records the age of a client's state when a conflated update replaced it.
    pub(crate) fn record_state_age(&mut self, age_ns: u64) {
        let [.., state_age] = &mut self.intervals.histograms;
        state_age.record_ns(age_ns);
    }

    /// Counts a delivery without recording its latency. Returns `true` if it was due in the
    /// measured window.
    pub(crate) fn record_background(
        &mut self,
        due_unix_ns: u64,
        schedule: Option<&Schedule>,
    ) -> bool {
        self.updates += 1;
        let in_window = schedule.is_some_and(|schedule| schedule.in_window(due_unix_ns));
        self.in_window += u64::from(in_window);
        in_window
    }

    /// Sends the nonempty intervals and the progress, and starts a new interval.
    pub fn report(&mut self, events: &EventSender, now_unix_ns: u64, counters: Counters<'_>) {
        self.intervals.report(events, now_unix_ns, counters);
    }
}
