//! Latencies and counters of all clients of a process, and the events that report them.

use std::collections::BTreeMap;

use weir_stats::Histogram;

use crate::stamp::Stamp;
use crate::worker::EventSender;
use crate::worker::protocol::{LatencyInterval, LatencyTag, Schedule, WorkerEvent, WorkerProgress};

/// Recorder of deliveries. It reports an interval each second.
#[derive(Debug)]
pub struct DeliveryRecorder {
    response: Histogram,
    service: Histogram,
    /// Time from the record's timestamp to the arrival.
    stored: Histogram,
    /// Age of an item's state when a conflated update replaced it.
    state_age: Histogram,
    /// Response times of the last second, for progress displays; not limited to the measured
    /// window.
    second: Histogram,
    interval_from_unix_ns: u64,
    pub(crate) updates: u64,
    pub(crate) in_window: u64,
    /// Arrivals before their due time, because clocks disagree.
    pub(crate) early: u64,
}

impl DeliveryRecorder {
    /// Creates a recorder whose first interval starts at `now_unix_ns`.
    pub fn new(now_unix_ns: u64) -> Self {
        Self {
            response: Histogram::new(),
            service: Histogram::new(),
            stored: Histogram::new(),
            state_age: Histogram::new(),
            second: Histogram::new(),
            interval_from_unix_ns: now_unix_ns,
            updates: 0,
            in_window: 0,
            early: 0,
        }
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
        self.updates += 1;
        self.early += u64::from(at_unix_ns < due_unix_ns);
        let response_ns = at_unix_ns.saturating_sub(due_unix_ns);
        self.second.record_ns(response_ns);
        if !schedule.is_some_and(|schedule| schedule.in_window(due_unix_ns)) {
            return None;
        }
        self.in_window += 1;
        self.response.record_ns(response_ns);
        if let Some(sent_unix_ns) = stamp.and_then(|stamp| stamp.sent_unix_ns) {
            self.service
                .record_ns(at_unix_ns.saturating_sub(sent_unix_ns));
        }
        Some(response_ns)
    }

    /// Records the time from the storage of a timed record to its arrival. The timestamp is
    /// truncated to milliseconds, so half a millisecond is added to it.
    pub(crate) fn record_stored(&mut self, stored_ms: u64, at_unix_ns: u64) {
        let stored_unix_ns = stored_ms.saturating_mul(1_000_000).saturating_add(500_000);
        self.stored
            .record_ns(at_unix_ns.saturating_sub(stored_unix_ns));
    }

    /// Counts a delivery that is not timed. Returns `true` if it was due in the measured window.
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

    /// Records the age of a state that a conflated update replaced.
    pub(crate) fn record_state_age(&mut self, age_ns: u64) {
        self.state_age.record_ns(age_ns);
    }

    /// Counts a delivery without a due time.
    pub(crate) fn record_untimed(&mut self) {
        self.updates += 1;
    }

    /// Sends the nonempty intervals and the progress, and starts a new interval.
    pub fn report(
        &mut self,
        events: &EventSender,
        now_unix_ns: u64,
        counters: BTreeMap<String, u64>,
    ) {
        let from_unix_ns = self.interval_from_unix_ns;
        for (tag, histogram) in [
            (LatencyTag::Response, &mut self.response),
            (LatencyTag::Service, &mut self.service),
            (LatencyTag::StoredToClient, &mut self.stored),
            (LatencyTag::StateAge, &mut self.state_age),
        ] {
            if !histogram.is_empty() {
                events.send(&WorkerEvent::Interval(LatencyInterval {
                    from_unix_ns,
                    until_unix_ns: now_unix_ns,
                    tag,
                    histogram: histogram.to_base64(),
                }));
                histogram.clear();
            }
        }
        let us = |percentile| self.second.percentile_ns(percentile).map(|ns| ns / 1000);
        events.send(&WorkerEvent::Progress(WorkerProgress {
            unix_ns: now_unix_ns,
            counters,
            p50_us: us(50.0),
            p99_us: us(99.0),
        }));
        self.second.clear();
        self.interval_from_unix_ns = now_unix_ns;
    }
}
