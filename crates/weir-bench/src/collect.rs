//! Collects the events of one cell's processes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use weir_stats::run::LatencySummary;
use weir_stats::{Histogram, NegativeCount, hlog};

use super::BenchError;
use super::child::{ChildEvent, ProcessRole};
use weir_load::delivery::DeliverySummary;
use weir_load::sampler::RoleSample;
use weir_load::worker::protocol::{
    LatencyTag, LedgerEntry, ProduceSummary, ScanSummary, Summary, WorkerEvent, WorkerProgress,
};

#[derive(Debug)]
pub(super) struct LatencySpan {
    pub(super) from_unix_ns: u64,
    pub(super) until_unix_ns: u64,
    pub(super) histogram: Histogram,
}

/// Returns the summary of times that one process measured.
pub(super) fn summary(histogram: &Histogram) -> LatencySummary {
    LatencySummary::of(histogram, NegativeCount::default(), 1e-3)
}

/// All events of one cell. Interval histograms are written to disk as they arrive.
#[derive(Debug)]
pub(super) struct Collected {
    log: hlog::IntervalLogWriter<BufWriter<File>>,
    /// Start of the measured window; earlier intervals belong to the warm-up and are ignored.
    pub(super) count_from_unix_ns: u64,
    /// Histograms of the window, by stage.
    pub(super) stages: BTreeMap<LatencyTag, Histogram>,
    pub(super) progress: BTreeMap<ProcessRole, Vec<WorkerProgress>>,
    pub(super) ready: BTreeMap<ProcessRole, u64>,
    pub(super) port: Option<u16>,
    pub(super) produced: BTreeMap<ProcessRole, ProduceSummary>,
    /// Producer of background records; its times are not latencies of the cell.
    pub(super) background: Option<ProcessRole>,
    pub(super) delivery: Option<DeliverySummary>,
    /// Summary of a consumer that reads from the beginning.
    pub(super) scan: Option<ScanSummary>,
    /// Intervals of the stage `publish_ack`, in order.
    pub(super) publish_acks: Vec<LatencySpan>,
    /// Samples of processes on other machines that the sampler has not got yet.
    pub(super) samples: Vec<(ProcessRole, RoleSample)>,
    pub(super) closed: Vec<ProcessRole>,
    pub(super) errors: Vec<String>,
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
            publish_acks: Vec::new(),
            samples: Vec::new(),
            closed: Vec::new(),
            errors: Vec::new(),
        })
    }

    /// Returns `true` if a worker has sent its last result.
    pub(super) fn is_final(&self, role: ProcessRole) -> bool {
        match role {
            ProcessRole::Clients => self.delivery.is_some(),
            ProcessRole::Consume => self.delivery.is_some() || self.scan.is_some(),
            _ => self.produced.contains_key(&role),
        }
    }

    pub(super) fn take(&mut self, message: ChildEvent) {
        match message {
            ChildEvent::Event(role, event) => self.event(role, event),
            ChildEvent::InvalidLine(role, error) => {
                self.errors
                    .push(format!("{} sent an invalid event: {error}", role.name()));
            }
            ChildEvent::Closed(role) => self.closed.push(role),
            ChildEvent::Sample(role, sample) => self.samples.push((role, sample)),
        }
    }

    fn event(&mut self, role: ProcessRole, event: WorkerEvent) {
        match event {
            WorkerEvent::Hello { .. }
            | WorkerEvent::Report { .. }
            | WorkerEvent::ReportSamples(_) => {}
            WorkerEvent::Ready { connections, port } => {
                self.ready.insert(role, connections);
                self.port = self.port.or(port);
            }
            WorkerEvent::Progress(progress) => {
                self.progress.entry(role).or_default().push(progress)
            }
            WorkerEvent::Interval(interval) => {
                let (from, until) = (interval.from_unix_ns, interval.until_unix_ns);
                match Histogram::from_base64(&interval.histogram) {
                    Ok(histogram) => self.interval((role, interval.tag), from, until, &histogram),
                    Err(error) => self.errors.push(format!("{}: {error}", role.name())),
                }
            }
            WorkerEvent::Final { summary } => match summary {
                Summary::Produce(summary) => {
                    self.produced.insert(role, summary);
                }
                Summary::Delivery(summary) => self.delivery = Some(summary),
                Summary::Scan(summary) => self.scan = Some(summary),
                Summary::Floor(_) => {}
            },
            WorkerEvent::Error { message, .. } => {
                self.errors
                    .push(format!("{} failed: {message}", role.name()));
            }
        }
    }

    fn interval(
        &mut self,
        (role, tag): (ProcessRole, LatencyTag),
        from: u64,
        until: u64,
        histogram: &Histogram,
    ) {
        // The interval log excludes the warm-up as well, because reports can be generated from it.
        if from < self.count_from_unix_ns {
            return;
        }
        let is_background = self.background == Some(role);
        let name = match is_background {
            true => format!("background_{}", tag.name()),
            false => tag.name().to_owned(),
        };
        // Write to disk before counting.
        if let Err(error) = self.log.write(&name, from, until, histogram) {
            self.errors
                .push(format!("writing the interval log failed: {error}"));
        }
        if tag == LatencyTag::PublishAck && !is_background {
            self.publish_acks.push(LatencySpan {
                from_unix_ns: from,
                until_unix_ns: until,
                histogram: histogram.clone(),
            });
        }
        if !is_background {
            self.stages.entry(tag).or_default().merge(histogram);
        }
    }

    pub(super) fn ledger(&self) -> Vec<LedgerEntry> {
        let entries = self.produced.values().flat_map(|summary| &summary.ledger);
        entries.cloned().collect()
    }

    pub(super) fn flush(&mut self) {
        if let Err(error) = self.log.flush() {
            self.errors
                .push(format!("writing the interval log failed: {error}"));
        }
    }

    /// Returns a counter of `role` at `unix_ns`, interpolated between reports; `None` without
    /// reports.
    pub(super) fn counter_at(&self, role: ProcessRole, name: &str, unix_ns: u64) -> Option<f64> {
        let reports = self.progress.get(&role)?;
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

    /// Returns the number of records of all producers acknowledged by the brokers at `unix_ns`.
    pub(super) fn acked_at(&self, unix_ns: u64) -> Option<f64> {
        let of = |role| self.counter_at(role, "acked", unix_ns);
        Some(of(ProcessRole::Produce)? + of(ProcessRole::ProduceMarked).unwrap_or(0.0))
    }

    /// Returns the deliveries that the receivers still lack of the records that were acknowledged
    /// at `unix_ns`, with `fan_out` deliveries per record.
    pub(super) fn backlog_at(
        &self,
        receiving: ProcessRole,
        unix_ns: u64,
        fan_out: f64,
    ) -> Option<u64> {
        let updates = self.counter_at(receiving, "updates", unix_ns)?;
        let late = self.acked_at(unix_ns)? * fan_out - updates;
        // Deliveries of the latest record are always in flight, and counters arrive once per second
        // and are interpolated: less than one record counts as none.
        Some(if late < fan_out { 0 } else { late as u64 })
    }

    pub(super) fn counter_in(
        &self,
        role: ProcessRole,
        name: &str,
        (from, until): (u64, u64),
    ) -> Option<f64> {
        Some(self.counter_at(role, name, until)? - self.counter_at(role, name, from)?)
    }

    pub(super) fn gauge_mean(
        &self,
        role: ProcessRole,
        name: &str,
        (from, until): (u64, u64),
    ) -> Option<f64> {
        let inside = |report: &&WorkerProgress| report.unix_ns > from && report.unix_ns <= until;
        let reports = self.progress.get(&role)?.iter().filter(inside);
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
    fn counters_are_interpolated_between_reports() {
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
        collected.take(ChildEvent::InvalidLine(ProcessRole::Floor, "x".to_owned()));
        assert_eq!(collected.errors, ["floor sent an invalid event: x"]);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn warm_up_intervals_are_ignored() {
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
