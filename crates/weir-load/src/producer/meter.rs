//! Schedule lag and acknowledgement times of the last second and of the whole run.

use weir_stats::Histogram;

use crate::worker::protocol::{LatencyInterval, LatencyTag, Quantiles, WorkerEvent};

/// Histograms of a producer.
#[derive(Debug, Default)]
pub(super) struct PublishRecorder {
    lag: TimedHistograms,
    ack: TimedHistograms,
    acknowledged: TimedHistograms,
    /// Lag of the last second, for progress displays; not limited to the measured window.
    second: Histogram,
    interval_from_unix_ns: u64,
}

#[derive(Debug, Default)]
struct TimedHistograms {
    interval: Histogram,
    total: Histogram,
}

impl PublishRecorder {
    pub(super) fn new(now_unix_ns: u64) -> Self {
        Self {
            interval_from_unix_ns: now_unix_ns,
            ..Self::default()
        }
    }

    /// Records the schedule lag of a sent record.
    pub(super) fn lag(&mut self, lag_ns: u64, in_window: bool) {
        self.second.record_ns(lag_ns);
        if in_window {
            self.lag.interval.record_ns(lag_ns);
        }
    }

    /// Records the times from send and from due time to the acknowledgement.
    pub(super) fn ack(&mut self, ack_ns: u64, since_due_ns: u64, in_window: bool) {
        if in_window {
            self.ack.interval.record_ns(ack_ns);
            self.acknowledged.interval.record_ns(since_due_ns);
        }
    }

    /// Ends the interval. Returns its events, and p50 and p99 of the last second's lag in
    /// microseconds.
    pub(super) fn end_interval(
        &mut self,
        now_unix_ns: u64,
    ) -> (Vec<WorkerEvent>, Option<u64>, Option<u64>) {
        let from_unix_ns = std::mem::replace(&mut self.interval_from_unix_ns, now_unix_ns);
        let mut events = Vec::new();
        for (tag, timed) in [
            (LatencyTag::ScheduleLag, &mut self.lag),
            (LatencyTag::PublishAck, &mut self.ack),
            (LatencyTag::Acknowledged, &mut self.acknowledged),
        ] {
            if timed.interval.is_empty() {
                continue;
            }
            events.push(WorkerEvent::Interval(LatencyInterval {
                from_unix_ns,
                until_unix_ns: now_unix_ns,
                tag,
                histogram: timed.interval.to_base64(),
            }));
            timed.end_interval();
        }
        let us = |percentile| self.second.percentile_ns(percentile).map(|ns| ns / 1000);
        let watched = (us(50.0), us(99.0));
        self.second.clear();
        (events, watched.0, watched.1)
    }

    /// Returns schedule lag and acknowledgement times of all ended intervals.
    pub(super) fn totals(&self) -> (Quantiles, Quantiles) {
        (quantiles(&self.lag.total), quantiles(&self.ack.total))
    }
}

impl TimedHistograms {
    fn end_interval(&mut self) {
        self.total.merge(&self.interval);
        self.interval.clear();
    }
}

fn quantiles(histogram: &Histogram) -> Quantiles {
    let at = |percentile| histogram.percentile_ns(percentile).unwrap_or(0);
    Quantiles {
        count: histogram.count(),
        p50_ns: at(50.0),
        p99_ns: at(99.0),
        p999_ns: at(99.9),
        max_ns: histogram.max_ns().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_deltas_and_add_up() {
        let mut meter = PublishRecorder::new(100);
        meter.lag(50_000, false);
        let (events, p50_us, _) = meter.end_interval(200);
        assert!(events.is_empty(), "no record in the window: {events:?}");
        assert_eq!(p50_us, Some(50));
        let mut counts = Vec::new();
        for (until, records) in [(300, 3), (400, 2)] {
            (0..records).for_each(|_| meter.lag(1_000_000, true));
            let (events, _, p99_us) = meter.end_interval(until);
            let [WorkerEvent::Interval(interval)] = events.as_slice() else {
                panic!("one interval of lag: {events:?}");
            };
            assert_eq!(
                (interval.from_unix_ns, interval.until_unix_ns),
                (until - 100, until)
            );
            let read = Histogram::from_base64(&interval.histogram).expect("readable");
            counts.push(read.count());
            let p99_us = p99_us.expect("samples");
            assert!((999..=1001).contains(&p99_us), "{p99_us}");
        }
        assert_eq!(counts, [3, 2]);
        let (_, p50_us, p99_us) = meter.end_interval(500);
        assert_eq!((p50_us, p99_us), (None, None), "a second without samples");
        assert_eq!(meter.totals().0.count, 5);
        assert_eq!(meter.totals().1, Quantiles::default());
    }
}
