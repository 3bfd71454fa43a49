//! What the parts of one cell have said so far.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use weir_stats::{Histogram, hlog};

use super::BenchError;
use super::child::{ChildEvent, ProcessRole};
use weir_load::delivery::DeliverySummary;
use weir_load::worker::protocol::{
    LatencyTag, LedgerEntry, ProduceSummary, ScanSummary, Summary, WorkerEvent, WorkerProgress,
};

/// Intervals of one stage, in order.
#[derive(Debug)]
pub(super) struct StageIntervals {
    pub(super) tag: LatencyTag,
    pub(super) intervals: Vec<LatencySpan>,
}

/// Latencies from one instant to another.
#[derive(Debug)]
pub(super) struct LatencySpan {
    pub(super) from_unix_ns: u64,
    pub(super) until_unix_ns: u64,
    pub(super) histogram: Histogram,
}

/// Everything of one cell that came by events; interval histograms go to disk as they come.
#[derive(Debug)]
pub(super) struct Collected {
    log: hlog::IntervalLogWriter<BufWriter<File>>,
    /// Intervals that begin before it are the warm-up: left out.
    pub(super) count_from_unix_ns: u64,
    /// Merged over the window, by stage.
    pub(super) stages: BTreeMap<LatencyTag, Histogram>,
    pub(super) progress: BTreeMap<ProcessRole, Vec<WorkerProgress>>,
    pub(super) ready: BTreeMap<ProcessRole, u64>,
    pub(super) port: Option<u16>,
    /// Accounts of the producers.
    pub(super) produced: BTreeMap<ProcessRole, ProduceSummary>,
    /// The producer whose records are background: its times are no latencies of the cell.
    pub(super) background: Option<ProcessRole>,
    pub(super) delivery: Option<DeliverySummary>,
    /// Of a consumer that reads from the begin.
    pub(super) scan: Option<ScanSummary>,
    /// The intervals of one stage, where they are asked for.
    pub(super) kept: Option<StageIntervals>,
    /// Parts whose output has ended.
    pub(super) closed: Vec<ProcessRole>,
    /// What went wrong with the instrument.
    pub(super) faults: Vec<String>,
}

impl Collected {
    /// Creates the interval log at `path`.
    pub(super) fn new(path: &Path, cell: &str, now_unix_ns: u64) -> Result<Self, BenchError> {
        let file = File::create(path).map_err(|error| BenchError::file(path, error))?;
        let comments = [cell, "values in nanoseconds, measured window only"];
        let log = hlog::IntervalLogWriter::new(BufWriter::new(file), now_unix_ns, &comments)
            .map_err(|error| BenchError::file(path, error))?;
        Ok(Self {
            log,
            count_from_unix_ns: 0,
            stages: BTreeMap::new(),
            progress: BTreeMap::new(),
            ready: BTreeMap::new(),
            port: None,
            produced: BTreeMap::new(),
            background: None,
            delivery: None,
            scan: None,
            kept: None,
            closed: Vec::new(),
            faults: Vec::new(),
        })
    }

    /// Takes one message.
    pub(super) fn take(&mut self, message: ChildEvent) {
        match message {
            ChildEvent::Event(part, event) => self.event(part, event),
            ChildEvent::Garbled(part, error) => {
                self.faults.push(format!(
                    "{} sent a line that is no event: {error}",
                    part.name()
                ));
            }
            ChildEvent::Closed(part) => self.closed.push(part),
        }
    }

    fn event(&mut self, part: ProcessRole, event: WorkerEvent) {
        match event {
            WorkerEvent::Hello { .. } | WorkerEvent::Report { .. } => {}
            WorkerEvent::Ready { connections, port } => {
                self.ready.insert(part, connections);
                self.port = self.port.or(port);
            }
            WorkerEvent::Progress(progress) => {
                self.progress.entry(part).or_default().push(progress)
            }
            WorkerEvent::Interval(interval) => {
                let (from, until) = (interval.from_unix_ns, interval.until_unix_ns);
                match Histogram::from_base64(&interval.histogram) {
                    Ok(histogram) => self.interval((part, interval.tag), from, until, &histogram),
                    Err(error) => self.faults.push(format!("{}: {error}", part.name())),
                }
            }
            WorkerEvent::Final {
                summary: Summary::Produce(summary),
            } => {
                self.produced.insert(part, summary);
            }
            WorkerEvent::Final {
                summary: Summary::Delivery(summary),
            } => self.delivery = Some(summary),
            WorkerEvent::Final {
                summary: Summary::Scan(summary),
            } => self.scan = Some(summary),
            WorkerEvent::Final {
                summary: Summary::Floor(_),
            } => {}
            WorkerEvent::Error { message } => {
                self.faults
                    .push(format!("{} failed: {message}", part.name()));
            }
        }
    }

    fn interval(
        &mut self,
        (part, tag): (ProcessRole, LatencyTag),
        from: u64,
        until: u64,
        histogram: &Histogram,
    ) {
        // The warm-up is no part of the log either, from which a report may be made again.
        if from < self.count_from_unix_ns {
            return;
        }
        let is_background = self.background == Some(part);
        let name = match is_background {
            true => format!("background_{}", tag.name()),
            false => tag.name().to_owned(),
        };
        // On disk before it counts.
        if let Err(error) = self.log.write(&name, from, until, histogram) {
            self.faults
                .push(format!("interval log not written: {error}"));
        }
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.tag == tag) {
            kept.intervals.push(LatencySpan {
                from_unix_ns: from,
                until_unix_ns: until,
                histogram: histogram.clone(),
            });
        }
        if !is_background {
            self.stages.entry(tag).or_default().merge(histogram);
        }
    }

    /// What all producers together account for.
    pub(super) fn ledger(&self) -> Vec<LedgerEntry> {
        let entries = self.produced.values().flat_map(|summary| &summary.ledger);
        entries.cloned().collect()
    }

    /// Makes sure the interval log is complete on disk.
    pub(super) fn flush(&mut self) {
        if let Err(error) = self.log.flush() {
            self.faults
                .push(format!("interval log not written: {error}"));
        }
    }

    /// A counter of `part` at `unix_ns`, between its two nearest reports; `None` without any.
    pub(super) fn counter_at(&self, part: ProcessRole, name: &str, unix_ns: u64) -> Option<f64> {
        let reports = self.progress.get(&part)?;
        let value = |report: &WorkerProgress| report.counters.get(name).map(|value| *value as f64);
        let after = reports.iter().position(|report| report.unix_ns >= unix_ns);
        let Some(after) = after else {
            return value(reports.last()?);
        };
        let next = &reports[after];
        let Some(before) = after.checked_sub(1).map(|at| &reports[at]) else {
            return value(next);
        };
        let span = (next.unix_ns - before.unix_ns).max(1) as f64;
        let share = unix_ns.saturating_sub(before.unix_ns) as f64 / span;
        let (low, high) = (value(before)?, value(next)?);
        Some(low + (high - low) * share)
    }

    /// Records that brokers had acknowledged at an instant, of all producers.
    pub(super) fn acked_at(&self, unix_ns: u64) -> Option<f64> {
        let of = |part| self.counter_at(part, "acked", unix_ns);
        Some(of(ProcessRole::Produce)? + of(ProcessRole::ProduceMarked).unwrap_or(0.0))
    }

    /// Mean of a counter that is a gauge, over the reports inside a span of time.
    pub(super) fn gauge_mean(
        &self,
        part: ProcessRole,
        name: &str,
        span_unix_ns: (u64, u64),
    ) -> Option<f64> {
        let inside = |report: &&WorkerProgress| {
            report.unix_ns > span_unix_ns.0 && report.unix_ns <= span_unix_ns.1
        };
        let reports = self.progress.get(&part)?.iter().filter(inside);
        let values: Vec<f64> = reports
            .filter_map(|report| report.counters.get(name))
            .map(|v| *v as f64)
            .collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(unix_ns: u64, updates: u64) -> ChildEvent {
        let counters = BTreeMap::from([("updates".to_owned(), updates)]);
        let progress = WorkerProgress {
            unix_ns,
            counters,
            ..WorkerProgress::default()
        };
        ChildEvent::Event(ProcessRole::Clients, WorkerEvent::Progress(progress))
    }

    #[test]
    fn counters_are_read_between_reports() {
        let path = std::env::temp_dir().join(format!("weir-collect-{}.hlog", std::process::id()));
        let mut collected = Collected::new(&path, "test", 0).unwrap();
        let at = |collected: &Collected, unix_ns| {
            collected.counter_at(ProcessRole::Clients, "updates", unix_ns)
        };
        assert_eq!(at(&collected, 5), None);
        for (unix_ns, updates) in [(100, 10), (200, 30)] {
            collected.take(progress(unix_ns, updates));
        }
        assert_eq!(at(&collected, 50), Some(10.0));
        assert_eq!(at(&collected, 150), Some(20.0));
        assert_eq!(at(&collected, 900), Some(30.0));
        assert_eq!(
            collected.counter_at(ProcessRole::Clients, "other", 150),
            None
        );
        assert_eq!(
            collected.gauge_mean(ProcessRole::Clients, "updates", (100, 200)),
            Some(30.0)
        );
        collected.take(ChildEvent::Garbled(ProcessRole::Floor, "x".to_owned()));
        assert_eq!(collected.faults, ["floor sent a line that is no event: x"]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_warm_up_is_neither_logged_nor_counted() {
        let path = std::env::temp_dir().join(format!("weir-warm-up-{}.hlog", std::process::id()));
        let mut collected = Collected::new(&path, "test", 0).unwrap();
        collected.count_from_unix_ns = 100;
        let mut histogram = Histogram::new();
        histogram.record_ns(5);
        for (from, until) in [(50, 150), (150, 250)] {
            collected.interval(
                (ProcessRole::Produce, LatencyTag::PublishAck),
                from,
                until,
                &histogram,
            );
        }
        collected.flush();
        assert_eq!(collected.stages[&LatencyTag::PublishAck].count(), 1);
        let log = std::fs::read_to_string(&path).unwrap();
        let lines = log.lines().filter(|line| line.contains("publish_ack"));
        assert_eq!(lines.count(), 1, "{log}");
        std::fs::remove_file(path).unwrap();
    }
}
