//! Schedules the report: once per interval from the start of the process, and at its end.

use std::time::{Duration, Instant};

use super::PublishedStatistics;
use crate::worker::EventSender;
use crate::worker::protocol::WorkerEvent;

/// Collector of latencies that sends the report as an event.
#[derive(Debug)]
pub struct PublishedReporter {
    statistics: PublishedStatistics,
    interval: Duration,
    started: Instant,
    next: Instant,
}

impl PublishedReporter {
    /// Starts a reporter with this interval.
    pub fn start(interval: Duration) -> Self {
        Self::start_at(Instant::now(), interval)
    }

    fn start_at(now: Instant, interval: Duration) -> Self {
        Self {
            statistics: PublishedStatistics::new(),
            interval,
            started: now,
            next: now + interval,
        }
    }

    /// Counts a record due at `due_unix_ns` that arrived at `at_unix_ns`.
    pub fn record(&mut self, due_unix_ns: u64, at_unix_ns: u64) {
        self.statistics.record(due_unix_ns, at_unix_ns);
    }

    /// Sends the report if the interval has passed, or if `at_end` is set.
    pub fn poll(&mut self, events: &EventSender, now: Instant, at_end: bool) {
        if let Some(text) = self.text_at(now, at_end) {
            events.send(&WorkerEvent::Report { text });
        }
    }

    fn text_at(&mut self, now: Instant, at_end: bool) -> Option<String> {
        if now < self.next && !at_end {
            return None;
        }
        self.next = now + self.interval;
        Some(self.statistics.report(now - self.started))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_is_sent_per_interval_and_at_end() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut reporter = PublishedReporter::start_at(start, Duration::from_secs(60));
        reporter.record(0, 5_000_000);
        assert_eq!(reporter.text_at(after(59), false), None);
        let report = reporter.text_at(after(61), false).expect("due");
        assert!(
            report.contains("0 Hours 1 minutes and 1 seconds\n"),
            "{report}"
        );
        assert_eq!(reporter.text_at(after(120), false), None);
        reporter.record(0, 7_000_000);
        let report = reporter.text_at(after(120), true).expect("the end");
        assert!(report.contains("Number of samples: 2\n"), "{report}");
    }
}
