//! Schedule lag and acknowledgement times of the last second and of the whole run.

use weir_stats::Histogram;

use super::tracker::AckedRecord;
use crate::meter::Intervals;
use crate::share::WorkerShare;
use crate::worker::protocol::{LatencyTag, Quantiles};
use crate::worker::{Counters, EventSender};

#[derive(Debug)]
pub(super) struct PublishRecorder {
    intervals: Intervals<3>,
    /// Schedule lag and acknowledgement times of all ended intervals.
    totals: [Histogram; 2],
}

const TAGS: [LatencyTag; 3] = [
    LatencyTag::ScheduleLag,
    LatencyTag::PublishAck,
    LatencyTag::Acknowledged,
];

impl PublishRecorder {
    pub(super) fn new(now_unix_ns: u64, share: WorkerShare) -> Self {
        let mut intervals = Intervals::new(TAGS, now_unix_ns);
        intervals.share = share;
        Self {
            intervals,
            totals: [(); 2].map(|()| Histogram::new()),
        }
    }

    pub(super) fn lag(&mut self, lag_ns: u64, in_window: bool) {
        self.intervals.second.record_ns(lag_ns);
        if in_window {
            self.intervals.histograms[0].record_ns(lag_ns);
        }
    }

    pub(super) fn ack(&mut self, record: &AckedRecord) {
        if record.in_window {
            self.intervals.histograms[1].record_ns(record.ack_ns);
            self.intervals.histograms[2].record_ns(record.since_due_ns);
        }
    }

    /// Ends the interval and sends it with the progress.
    pub(super) fn report(
        &mut self,
        events: &EventSender,
        now_unix_ns: u64,
        counters: Counters<'_>,
    ) {
        for (total, interval) in self.totals.iter_mut().zip(&self.intervals.histograms) {
            total.merge(interval);
        }
        self.intervals.report(events, now_unix_ns, counters);
    }

    /// Returns schedule lag and acknowledgement times of all ended intervals.
    pub(super) fn totals(&self) -> [Quantiles; 2] {
        self.totals.each_ref().map(Quantiles::of)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;
    use crate::worker::protocol::WorkerEvent;

    struct EventLog(Sender<WorkerEvent>);

    impl Write for EventLog {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.send(serde_json::from_slice(line)?).expect("open");
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Returns the intervals, and p50 and p99 of the last second.
    fn report(
        meter: &mut PublishRecorder,
        (events, log): &(EventSender, Receiver<WorkerEvent>),
        now: u64,
    ) -> (Vec<WorkerEvent>, Option<u64>, Option<u64>) {
        meter.report(events, now, &[]);
        let mut sent: Vec<_> = log.try_iter().collect();
        match sent.pop() {
            Some(WorkerEvent::Progress(progress)) => (sent, progress.p50_us, progress.p99_us),
            other => panic!("progress is last: {other:?}"),
        }
    }

    #[test]
    fn intervals_are_deltas_and_add_up() {
        let (sender, receiver) = channel();
        let log = (EventSender::new(EventLog(sender)), receiver);
        let mut meter = PublishRecorder::new(100, WorkerShare::WHOLE);
        meter.lag(50_000, false);
        let (events, p50_us, _) = report(&mut meter, &log, 200);
        assert!(events.is_empty(), "no record in the window: {events:?}");
        assert_eq!(p50_us, Some(50));
        let mut counts = Vec::new();
        for (until, records) in [(300, 3), (400, 2)] {
            (0..records).for_each(|_| meter.lag(1_000_000, true));
            let (events, _, p99_us) = report(&mut meter, &log, until);
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
        let (_, p50_us, p99_us) = report(&mut meter, &log, 500);
        assert_eq!((p50_us, p99_us), (None, None), "a second without samples");
        assert_eq!(meter.totals()[0].count, 5);
        assert_eq!(meter.totals()[1], Quantiles::default());
    }
}
