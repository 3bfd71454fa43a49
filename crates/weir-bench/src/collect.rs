//! Collects the events of one cell's processes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use weir_stats::run::LatencySummary;
use weir_stats::{Histogram, NegativeCount, hlog};

use super::BenchError;
use super::child::{ChildEvent, ProcessRole, RoleInstance};
use super::role_group::{self, ProcessEvents, RoleGroup};
use weir_load::delivery::DeliverySummary;
use weir_load::sampler::RoleSample;
use weir_load::worker::protocol::{
    LatencyTag, LedgerEntry, ProduceSummary, ScanSummary, Summary, WorkerEvent, WorkerProgress,
};

/// Latencies of one interval.
#[derive(Debug)]
pub(super) struct LatencySpan {
    pub(super) from_unix_ns: u64,
    pub(super) until_unix_ns: u64,
    pub(super) histogram: Histogram,
}

/// Summarizes times that a single process measured; none is negative.
pub(super) fn summary(histogram: &Histogram) -> LatencySummary {
    LatencySummary::of(histogram, NegativeCount::default(), 1e-3)
}

/// All events of one cell. Interval histograms are written to disk as they arrive.
#[derive(Debug)]
pub(super) struct Collected {
    log: hlog::IntervalLogWriter<BufWriter<File>>,
    /// Start of the measured window; earlier intervals belong to the warm-up and are ignored.
    pub(super) count_from_unix_ns: u64,
    /// Processes of each role that has sent an event, or is known to have several processes.
    groups: BTreeMap<ProcessRole, RoleGroup>,
    /// Histograms of the measured window, by stage.
    pub(super) stages: BTreeMap<LatencyTag, Histogram>,
    /// Reports of each role: of its only process, or the sums of several.
    pub(super) progress: BTreeMap<ProcessRole, Vec<WorkerProgress>>,
    /// Connections of each role whose processes are all ready.
    pub(super) ready: BTreeMap<ProcessRole, u64>,
    pub(super) port: Option<u16>,
    /// Content of the ready file of the gateway on another machine.
    pub(super) ready_file: Option<String>,
    pub(super) produced: BTreeMap<ProcessRole, ProduceSummary>,
    /// Producer of background records; its times are not latencies of the cell.
    pub(super) background: Option<ProcessRole>,
    /// Summary of the receivers, once all their processes have sent theirs.
    pub(super) delivery: Option<DeliverySummary>,
    /// Summary of a consumer that reads from the beginning.
    pub(super) scan: Option<ScanSummary>,
    /// Intervals of the stage `publish_ack`, in order.
    pub(super) publish_acks: Vec<LatencySpan>,
    /// Samples of processes on other machines, not yet passed to the sampler.
    pub(super) samples: Vec<(RoleInstance, RoleSample)>,
    /// Processes whose output has ended.
    pub(super) closed: Vec<RoleInstance>,
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
            groups: BTreeMap::new(),
            stages: BTreeMap::new(),
            progress: BTreeMap::new(),
            ready: BTreeMap::new(),
            port: None,
            ready_file: None,
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

    /// Sets the machines of a role, one for each of its processes.
    pub(super) fn set_hosts(&mut self, role: ProcessRole, hosts: impl IntoIterator<Item = String>) {
        self.groups.insert(role, RoleGroup::on(hosts));
    }

    /// Returns the processes of a role.
    pub(super) fn group(&mut self, role: ProcessRole) -> &mut RoleGroup {
        self.groups.entry(role).or_default()
    }

    /// Returns the processes of a role if several share it.
    pub(super) fn shares(&self, role: ProcessRole) -> &[ProcessEvents] {
        let group = self.groups.get(&role).filter(|group| group.is_shared());
        group.map_or(&[], RoleGroup::processes)
    }

    /// Returns the name of a process in messages.
    pub(super) fn label(&self, instance: RoleInstance) -> String {
        let name = instance.role.name();
        let group = self.groups.get(&instance.role);
        group.map_or_else(|| name.to_owned(), |group| group.label(instance))
    }

    /// Returns `true` if a process has sent its last result.
    pub(super) fn has_ended(&self, instance: RoleInstance) -> bool {
        let share = self.shares(instance.role).get(instance.index);
        share.map_or_else(|| self.is_final(instance.role), ProcessEvents::has_ended)
    }

    /// Returns `true` if all workers of a role have sent their last results.
    pub(super) fn is_final(&self, role: ProcessRole) -> bool {
        match role {
            ProcessRole::Clients => self.delivery.is_some(),
            ProcessRole::Consume => self.delivery.is_some() || self.scan.is_some(),
            _ => self.produced.contains_key(&role),
        }
    }

    pub(super) fn handle(&mut self, event: ChildEvent) {
        match event {
            ChildEvent::Event(instance, event) => self.handle_worker(instance, event),
            ChildEvent::InvalidLine(instance, error) => {
                self.add_error(instance, &format!("sent an invalid event: {error}"));
            }
            ChildEvent::Closed(instance) => self.closed.push(instance),
            ChildEvent::Sample(instance, sample) => self.samples.push((instance, sample)),
            ChildEvent::ReadyFile(content) => self.ready_file = Some(content),
        }
    }

    fn add_error(&mut self, instance: RoleInstance, text: &str) {
        let label = self.label(instance);
        self.errors.push(format!("{label} {text}"));
    }

    fn handle_worker(&mut self, instance: RoleInstance, event: WorkerEvent) {
        let RoleInstance { role, index } = instance;
        match event {
            WorkerEvent::Hello { .. }
            | WorkerEvent::Report { .. }
            | WorkerEvent::ReportSamples(_) => {}
            WorkerEvent::Ready { connections, port } => {
                if let Some(connections) = self.group(role).ready(index, connections) {
                    self.ready.insert(role, connections);
                }
                self.port = self.port.or(port);
            }
            WorkerEvent::Progress(progress) => self.add_progress(instance, progress),
            WorkerEvent::Interval(interval) => {
                let (from, until) = (interval.from_unix_ns, interval.until_unix_ns);
                match Histogram::from_base64(&interval.histogram) {
                    Ok(histogram) => {
                        self.add_interval((instance, interval.tag), from, until, &histogram);
                    }
                    Err(error) => self.add_error(instance, &format!("sent an interval: {error}")),
                }
            }
            WorkerEvent::Final { summary } => match summary {
                Summary::Produce(summary) => {
                    if let Some(summary) = self.group(role).produced(index, summary) {
                        self.produced.insert(role, summary);
                    }
                }
                Summary::Delivery(summary) => {
                    self.delivery = self.group(role).finished(index, summary);
                }
                Summary::Scan(summary) => self.scan = Some(summary),
                Summary::Floor(_) => {}
            },
            WorkerEvent::Error { message, .. } => {
                self.add_error(instance, &format!("failed: {message}"));
            }
        }
    }

    fn add_progress(&mut self, instance: RoleInstance, mut report: WorkerProgress) {
        let RoleInstance { role, index } = instance;
        let second = report.second.take().map(|it| Histogram::from_base64(&it));
        let second = match second.transpose() {
            Ok(second) => second,
            Err(error) => return self.add_error(instance, &format!("sent a report: {error}")),
        };
        if let Some(report) = self.group(role).report(index, report, second.as_ref()) {
            self.progress.entry(role).or_default().push(report);
        }
    }

    fn add_interval(
        &mut self,
        (instance, tag): (RoleInstance, LatencyTag),
        from: u64,
        until: u64,
        histogram: &Histogram,
    ) {
        // The interval log excludes the warm-up as well, because reports can be generated from it.
        if from < self.count_from_unix_ns {
            return;
        }
        let is_background = self.background == Some(instance.role);
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
        if tag == LatencyTag::Response {
            self.group(instance.role)
                .response(instance.index, histogram);
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
        role_group::counter_at(self.progress.get(&role)?, name, unix_ns)
    }

    /// Returns the number of records of all producers acknowledged by the brokers at `unix_ns`.
    pub(super) fn acked_at(&self, unix_ns: u64) -> Option<f64> {
        let acked = |role| self.counter_at(role, "acked", unix_ns);
        Some(acked(ProcessRole::Produce)? + acked(ProcessRole::ProduceMarked).unwrap_or(0.0))
    }

    /// Returns the deliveries outstanding at `unix_ns`: `fan_out` for each acknowledged record,
    /// less those that the receivers have reported.
    pub(super) fn backlog_at(
        &self,
        receiving: ProcessRole,
        unix_ns: u64,
        fan_out: f64,
    ) -> Option<u64> {
        let updates = self.counter_at(receiving, "updates", unix_ns)?;
        let pending = self.acked_at(unix_ns)? * fan_out - updates;
        // Deliveries of the latest record are always in flight, and counters arrive once per second
        // and are interpolated: less than one record counts as none.
        Some(if pending < fan_out { 0 } else { pending as u64 })
    }

    /// Returns the increase of a counter during a time span.
    pub(super) fn counter_in(
        &self,
        role: ProcessRole,
        name: &str,
        (from, until): (u64, u64),
    ) -> Option<f64> {
        Some(self.counter_at(role, name, until)? - self.counter_at(role, name, from)?)
    }

    /// Returns for each process of a role its name and the share of a time span in which its event
    /// loops were busy.
    pub(super) fn busy_shares(&self, role: ProcessRole, span: (u64, u64)) -> Vec<(String, f64)> {
        let shared = self.shares(role).iter().map(|it| it.reports.as_slice());
        let mut reports: Vec<&[WorkerProgress]> = shared.collect();
        if reports.is_empty() {
            reports.extend(self.progress.get(&role).map(Vec::as_slice));
        }
        let shares = reports.into_iter().enumerate().filter_map(|(index, it)| {
            let permille = role_group::gauge_mean(it, "busy_permille", span)?;
            let label = self.label(RoleInstance { role, index });
            Some((label, permille / 1e3))
        });
        shares.collect()
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
        ChildEvent::Event(ProcessRole::Clients.into(), WorkerEvent::Progress(progress))
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
            collected.handle(progress(unix_ns, updates));
        }
        assert_eq!(at(&collected, 50), Some(10.0));
        assert_eq!(at(&collected, 150), Some(20.0));
        assert_eq!(at(&collected, 900), Some(30.0));
        assert_eq!(
            collected.counter_at(ProcessRole::Clients, "other", 150),
            None
        );
        let reports = &collected.progress[&ProcessRole::Clients];
        let mean = role_group::gauge_mean(reports, "updates", (100, 200));
        assert_eq!(mean, Some(30.0));
        let floor = ProcessRole::Floor.into();
        collected.handle(ChildEvent::InvalidLine(floor, "x".to_owned()));
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
            collected.add_interval(
                (ProcessRole::Produce.into(), LatencyTag::PublishAck),
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
