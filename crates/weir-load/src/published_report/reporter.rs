//! When the report is due: each minute from the start of the process, and once more at its end.

use std::time::{Duration, Instant};

use super::PublishedStatistics;
use crate::worker::EventSender;
use crate::worker::protocol::WorkerEvent;

/// Gathers latencies and sends the report as an event.
#[derive(Debug)]
pub struct PublishedReporter {
    statistics: PublishedStatistics,
    every: Duration,
    started: Instant,
    next: Instant,
}

impl PublishedReporter {
    /// Starts the clock of the report, which is due each `every`.
    pub fn start(every: Duration) -> Self {
        Self::start_at(Instant::now(), every)
    }

    fn start_at(now: Instant, every: Duration) -> Self {
        Self {
            statistics: PublishedStatistics::new(),
            every,
            started: now,
            next: now + every,
        }
    }

    /// Counts a record due at the first instant that came at the second.
    pub fn record(&mut self, due_unix_ns: u64, at_unix_ns: u64) {
        self.statistics.record(due_unix_ns, at_unix_ns);
    }

    /// Sends the report if it is time, or if this is the end.
    pub fn turn(&mut self, events: &EventSender, now: Instant, at_end: bool) {
        if let Some(text) = self.text_at(now, at_end) {
            events.send(&WorkerEvent::Report { text });
        }
    }

    fn text_at(&mut self, now: Instant, at_end: bool) -> Option<String> {
        if now < self.next && !at_end {
            return None;
        }
        self.next = now + self.every;
        Some(self.statistics.report(now - self.started))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_comes_at_its_time_and_at_the_end() {
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
