//! Computes a cell's results from the events of its processes, and its validity.

use weir_stats::run::{
    BACKLOG_DELIVERIES, BACKLOG_DRAIN_S, BACKLOG_DRAINED_PER_S, Cell, CellStatus, DeliveryTotals,
    Fairness, LatencySummary, RoleUsage, STAGE_PUBLISH_ACK, STAGE_RESPONSE, STAGE_SCHEDULE_LAG,
    STAGE_SERVICE, STAGE_STORED_TO_CLIENT, SeriesPoint,
};
use weir_stats::{Histogram, NegativeCount};

use super::child::ProcessRole;
use super::collect::{self, Collected};
use super::figure_names::{
    COMMIT_P50_MS, COMMIT_P99_MS, MAPPING_SHARE, MAPPING_US_PER_RECORD, TRANSACTIONS,
};
use super::gateway::{AGE_COUNT, AGE_SUM_US};
use super::saturation;
use super::stages;
use super::usage::CellUsage;
use crate::plan::{Plan, TimestampMode};
use weir_load::delivery::DeliverySummary;
use weir_load::worker::protocol::{LatencyTag, ProduceSummary};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MeasuredWindow {
    /// First due time of the load, including the warm-up.
    pub(super) start_unix_ns: u64,
    /// First due time inside the window.
    pub(super) from_unix_ns: u64,
    /// First due time after the window.
    pub(super) until_unix_ns: u64,
    /// `true` if the user ended the window early.
    pub(super) interrupted: bool,
}

impl MeasuredWindow {
    pub(super) fn contains(&self, due_unix_ns: u64) -> bool {
        (self.from_unix_ns..self.until_unix_ns).contains(&due_unix_ns)
    }

    pub(super) fn hold_s(&self) -> f64 {
        self.until_unix_ns.saturating_sub(self.from_unix_ns) as f64 / 1e9
    }

    /// Returns the seconds from the start of the load to the end of the window.
    pub(super) fn load_s(&self) -> f64 {
        self.until_unix_ns.saturating_sub(self.start_unix_ns) as f64 / 1e9
    }

    /// Returns `true` if a sample taken at `now`, at its due time or just after it, is the first or
    /// last of the window.
    pub(super) fn is_edge(&self, now_unix_ns: u64) -> bool {
        let edges = [self.from_unix_ns, self.until_unix_ns];
        edges
            .iter()
            .any(|edge| (*edge..*edge + SECOND_NS / 2).contains(&now_unix_ns))
    }

    /// Returns the next time to sample after `now`: whole seconds from the start of the window, and
    /// its end.
    pub(super) fn next_sample(&self, now_unix_ns: u64) -> u64 {
        let phase = self.from_unix_ns % SECOND_NS;
        let whole = (now_unix_ns.saturating_sub(phase) / SECOND_NS + 1) * SECOND_NS + phase;
        if now_unix_ns < self.until_unix_ns {
            whole.min(self.until_unix_ns)
        } else {
            whole
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Measured<'a> {
    pub(super) plan: &'a Plan,
    pub(super) receiving: ProcessRole,
    pub(super) collected: &'a Collected,
    pub(super) usage: &'a CellUsage,
}

pub(super) fn build(cell: &mut Cell, window: &MeasuredWindow, measured: Measured<'_>) {
    cell.hold_s = window.hold_s();
    cell.warm_up_s = window.load_s() - cell.hold_s;
    if window.interrupted {
        cell.notes.push(format!(
            "interrupted after {:.1} of {:.1} s",
            cell.hold_s,
            measured.plan.hold.as_secs_f64()
        ));
    }
    measured.produced(cell);
    measured.latency(cell);
    let span = (window.from_unix_ns, window.until_unix_ns);
    if let Some(summary) = &measured.collected.delivery {
        cell.delivery = Some(measured.delivery(cell, summary, span));
        cell.fairness = fairness(summary);
    }
    measured.shape(cell);
    let wanted = cell.delivery.as_ref().map_or(0, DeliveryTotals::wanted);
    cell.roles = measured.usage.roles(span, cell.clients, wanted);
    cell.shares = measured.shares(span);
    measured.network(&mut cell.roles, span);
    measured.mapping(cell, span);
    cell.series = measured.series(window, fan_out(&measured, cell));
    measured.stages(cell, span);
    let load = measured.quality(cell, window);
    let receiver = measured.busy_share(span);
    let receiver = receiver.map(|share| (measured.receiving.name(), share));
    saturation::set(cell, load, receiver);
    let reasons = measured.invalid_reasons(span);
    if !reasons.is_empty() {
        cell.status = CellStatus::Invalid { reasons };
    }
}

impl Measured<'_> {
    fn produced(&self, cell: &mut Cell) {
        let produced = &self.collected.produced;
        if produced.is_empty() {
            return;
        }
        let sum = |of: fn(&ProduceSummary) -> u64| produced.values().map(of).sum::<u64>() as f64;
        cell.achieved_records_per_s = Some(sum(|it| it.acked_in_window) / cell.hold_s);
        let sent = sum(|it| it.sent);
        if sent > 0.0 {
            cell.record_bytes_mean = Some(sum(|it| it.bytes_sent) / sent);
        }
        for (role, summary) in produced {
            for (text, count) in &summary.errors {
                let note = format!("{}: {count} x {text}", role.name());
                cell.notes.push(note);
            }
        }
    }

    /// Sets the figures of transactions and of a backlog.
    fn shape(&self, cell: &mut Cell) {
        let mut set = |name: &str, value| cell.figures.insert(name.to_owned(), value);
        let produced = self.collected.produced.get(&ProcessRole::Produce);
        if let Some(transactions) = produced.and_then(|it| it.transactions) {
            let ms = |ns: u64| ns as f64 / 1e6;
            set(TRANSACTIONS, transactions.committed as f64);
            set(COMMIT_P50_MS, ms(transactions.commit.p50_ns));
            set(COMMIT_P99_MS, ms(transactions.commit.p99_ns));
        }
        let delivery = self.collected.delivery.as_ref();
        if let Some(backlog) = delivery.and_then(|summary| summary.backlog) {
            set(BACKLOG_DELIVERIES, backlog.records as f64);
            set(BACKLOG_DRAIN_S, backlog.drain_ns as f64 / 1e9);
            set(BACKLOG_DRAINED_PER_S, backlog.records_per_s());
        }
    }

    fn latency(&self, cell: &mut Cell) {
        let delivery = self.collected.delivery.as_ref();
        let resolution_ns = delivery.map_or(1, |summary| summary.latency_resolution_ns);
        let reports = self.collected.progress.get(&self.receiving);
        let early = reports.and_then(|all| all.last()?.counters.get("early"));
        for (tag, stage) in STAGES {
            let Some(histogram) = self.collected.stages.get(&tag) else {
                continue;
            };
            let summary = match tag {
                LatencyTag::Response => {
                    let negative = NegativeCount {
                        count: early.copied().unwrap_or(0),
                        ..NegativeCount::default()
                    };
                    LatencySummary::of(histogram, negative, resolution_ns as f64 / 1e3)
                }
                _ => collect::summary(histogram),
            };
            cell.latency.insert(stage.to_owned(), summary);
        }
    }

    fn delivery(&self, cell: &Cell, summary: &DeliverySummary, span: (u64, u64)) -> DeliveryTotals {
        let delivered = summary
            .counts
            .deliveries_in_window
            .saturating_sub(summary.counts.duplicated);
        let received_bytes = self.counted(self.receiving, "bytes_received", span);
        let received_bytes = received_bytes.unwrap_or(0.0).max(0.0);
        DeliveryTotals {
            expected: delivered + summary.counts.lost + summary.counts.conflated,
            delivered,
            wanted: self.own_key_deliveries(delivered, summary.counts.lost, cell.clients),
            lost: summary.counts.lost,
            duplicated: summary.counts.duplicated,
            reordered: summary.counts.reordered,
            conflated: summary.counts.conflated,
            unchecked: summary.counts.unchecked,
            delivered_per_s: Some(delivered as f64 / cell.hold_s),
            received_bytes: received_bytes as u64,
            received_mbit_per_s: Some(received_bytes * 8.0 / 1e6 / cell.hold_s),
            disconnects: summary.disconnects,
            errors: summary.errors.clone(),
        }
    }

    /// Returns the deliveries to plain consumers that have the key of the client with the same
    /// number. Losses are assumed to affect wanted and unwanted deliveries equally.
    fn own_key_deliveries(&self, delivered: u64, lost: u64, clients: u64) -> Option<u64> {
        if self.receiving != ProcessRole::Consume {
            return None;
        }
        let (ledger, seed) = (self.collected.ledger(), self.plan.workload.seed);
        let due = self
            .plan
            .clients
            .expected_deliveries(&ledger, clients, seed)?;
        let share = delivered as f64 / (delivered + lost).max(1) as f64;
        Some((due as f64 * share).round() as u64)
    }

    /// Sets the latency stages if the broker has stamped the records; the configuration of an
    /// existing topic is not known.
    fn stages(&self, cell: &mut Cell, span: (u64, u64)) {
        let is_known =
            self.plan.workload.timestamps == TimestampMode::Broker && self.plan.topic.is_none();
        if is_known {
            let counted = |name| self.counted(ProcessRole::Gateway, name, span);
            let ages = counted(AGE_SUM_US).zip(counted(AGE_COUNT));
            cell.stages = stages::of(cell, self.receiving, ages);
        }
    }

    /// Sets the cost of reading and mapping records in the gateway, delivered or not.
    fn mapping(&self, cell: &mut Cell, span: (u64, u64)) {
        let Some((busiest, all)) = self.usage.mapping_threads(span) else {
            return;
        };
        cell.figures.insert(MAPPING_SHARE.to_owned(), busiest);
        if let Some(records) = cell.achieved_records_per_s.filter(|rate| *rate > 0.0) {
            let us = all * 1e6 / records;
            cell.figures.insert(MAPPING_US_PER_RECORD.to_owned(), us);
        }
    }

    /// Sets network bytes as counted by the processes themselves: `/proc` has no bytes per process.
    fn network(&self, roles: &mut [RoleUsage], span: (u64, u64)) {
        for usage in roles {
            let role: Option<ProcessRole> = usage.role.parse().ok();
            let bytes = |role, name| Some(self.counted(role, name, span)? as u64);
            let counted = |name| bytes(role?, name);
            usage.network_rx_bytes = counted("bytes_received");
            usage.network_tx_bytes = counted("bytes_sent");
            if usage.network_rx_bytes.or(usage.network_tx_bytes).is_some() {
                usage.network_source = "counted by the process".to_owned();
            } else if usage.role == "broker" {
                usage.network_rx_bytes = bytes(ProcessRole::Produce, "bytes_sent");
                let reads_all = self.receiving == ProcessRole::Consume;
                let received = bytes(self.receiving, "bytes_received");
                usage.network_tx_bytes = received.filter(|_| reads_all);
                let source = "counted by its clients: keys and values that producers sent, all \
                              bytes that consumers received";
                usage.network_source = source.to_owned();
            }
        }
    }

    /// Returns one point per second, from the first reports to the end of the window.
    fn series(&self, window: &MeasuredWindow, fan_out: Option<f64>) -> Vec<SeriesPoint> {
        let offset = |unix_ns: u64| (unix_ns as i128 - window.from_unix_ns as i128) as f64 / 1e9;
        let mut ends = Vec::new();
        let mut at = window.next_sample(window.start_unix_ns);
        while at <= window.until_unix_ns {
            ends.push(at);
            at = window.next_sample(at);
        }
        let rate = |role, name, (from, until): (u64, u64)| {
            Some(self.counted(role, name, (from, until))? * 1e9 / (until - from) as f64)
        };
        ends.into_iter()
            .map(|end| {
                let span = (end.saturating_sub(SECOND_NS).max(window.start_unix_ns), end);
                let received = self.report_in(self.receiving, span);
                let produced = self.report_in(ProcessRole::Produce, span);
                SeriesPoint {
                    t_s: offset(end),
                    offered_per_s: Some(self.plan.workload.rate_per_s),
                    achieved_per_s: rate(ProcessRole::Produce, "acked", span).map(|own| {
                        own + rate(ProcessRole::ProduceMarked, "acked", span).unwrap_or(0.0)
                    }),
                    delivered_per_s: rate(self.receiving, "updates", span),
                    p50_us: received.map(|(p50_us, _)| p50_us),
                    p99_us: received.map(|(_, p99_us)| p99_us),
                    lag_p99_us: produced.map(|(_, p99_us)| p99_us),
                    cpu_cores: self.usage.cores_at(end + EDGE_NS),
                    backlog: fan_out
                        .and_then(|it| self.collected.backlog_at(self.receiving, end, it)),
                }
            })
            .collect()
    }

    fn counted(&self, role: ProcessRole, name: &str, span: (u64, u64)) -> Option<f64> {
        self.collected.counter_in(role, name, span)
    }

    /// Returns median and 99th percentile that a role reported inside a time span.
    fn report_in(&self, role: ProcessRole, (from, until): (u64, u64)) -> Option<(f64, f64)> {
        let reports = self.collected.progress.get(&role)?;
        let inside = |at: u64| at > from && at <= until;
        let report = reports.iter().rev().find(|report| inside(report.unix_ns))?;
        Some((report.p50_us? as f64, report.p99_us? as f64))
    }

    /// Returns the share of the window in which the receivers' event loop was busy: of several that
    /// of the busiest.
    fn busy_share(&self, span: (u64, u64)) -> Option<f64> {
        let shares = self.collected.busy_shares(self.receiving, span).into_iter();
        shares.map(|(_, share)| share).reduce(f64::max)
    }

    /// Returns the reasons why the cell does not measure the system under test.
    fn invalid_reasons(&self, span: (u64, u64)) -> Vec<String> {
        let validity = &self.plan.validity;
        let mut reasons = self.collected.errors.clone();
        let lag = self.collected.stages.get(&LatencyTag::ScheduleLag);
        if let Some((percentile, ns)) = lag.and_then(highest_supported) {
            let (ms, limit) = (ns as f64 / 1e6, validity.schedule_lag_p99_ms);
            if ms > limit {
                reasons.push(format!(
                    "generator behind schedule: p{percentile} {ms:.1} ms, limit {limit} ms"
                ));
            }
        }
        let limit = validity.clients_busy_share;
        for (name, busy) in self.collected.busy_shares(self.receiving, span) {
            if busy > limit {
                let text = format!("{name} saturated: busy share {busy:.2}, limit {limit}");
                reasons.push(text);
            }
        }
        match &self.collected.delivery {
            None => reasons.push("the receivers reported no result".to_owned()),
            Some(summary) if !summary.settled => {
                reasons.push("deliveries could not be checked against the ledger".to_owned());
            }
            Some(_) => {}
        }
        let produced = &self.collected.produced;
        if produced.is_empty() {
            reasons.push("the producers reported no result".to_owned());
        } else if produced.values().any(|it| it.acked_in_window == 0) {
            reasons.push("no records were acknowledged in the window".to_owned());
        }
        let mut transactions = produced.values().filter_map(|it| it.transactions);
        if transactions.any(|it| it.failed > 0) {
            reasons.push("a transaction was not committed".to_owned());
        }
        let background = self.collected.background;
        let background = background.and_then(|role| produced.get(&role));
        let late_ms = background.map_or(0.0, |it| it.schedule_lag.p99_ns as f64 / 1e6);
        let limit = validity.schedule_lag_p99_ms;
        if late_ms > limit {
            reasons.push(format!(
                "background producer behind schedule: p99 {late_ms:.1} ms, limit {limit} ms"
            ));
        }
        reasons
    }
}

/// Returns the 99th percentile, or the highest lower one that the number of values supports: with
/// four records per second, a single value would determine the 99th.
fn highest_supported(histogram: &Histogram) -> Option<(u32, u64)> {
    [99, 95, 90, 50].into_iter().find_map(|percentile| {
        let value_ns = histogram.supported_percentile_ns(f64::from(percentile))?;
        Some((percentile, value_ns))
    })
}

/// Returns the average number of expected deliveries per record.
fn fan_out(measured: &Measured<'_>, cell: &Cell) -> Option<f64> {
    let produced = measured.collected.produced.values();
    let acked: u64 = produced.map(|summary| summary.acked_in_window).sum();
    let expected = cell.delivery.as_ref()?.expected;
    (acked > 0 && expected > 0).then(|| expected as f64 / acked as f64)
}

fn fairness(summary: &DeliverySummary) -> Option<Fairness> {
    let (p99, deliveries) = (&summary.client_p99_us, &summary.client_deliveries);
    let of = |value: Option<u64>| value.map(|us| us as f64);
    Some(Fairness {
        clients: p99.clients(),
        client_p99_min_us: of(p99.min()),
        client_p99_p50_us: of(p99.percentile(50)),
        client_p99_p90_us: of(p99.percentile(90)),
        client_p99_max_us: of(p99.max()),
        deliveries_min: deliveries.min()?,
        deliveries_max: deliveries.max()?,
    })
}

const STAGES: [(LatencyTag, &str); 5] = [
    (LatencyTag::Response, STAGE_RESPONSE),
    (LatencyTag::Service, STAGE_SERVICE),
    (LatencyTag::ScheduleLag, STAGE_SCHEDULE_LAG),
    (LatencyTag::PublishAck, STAGE_PUBLISH_ACK),
    (LatencyTag::StoredToClient, STAGE_STORED_TO_CLIENT),
];
const SECOND_NS: u64 = 1_000_000_000;
/// The sample of a whole second is taken just after it.
const EDGE_NS: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::child::{ChildEvent, RoleInstance};
    use super::*;
    use weir_load::delivery::DeliveryCounts;
    use weir_load::worker::protocol::{Summary, WorkerEvent, WorkerProgress};

    const WINDOW: MeasuredWindow = MeasuredWindow {
        start_unix_ns: 500_000_000,
        from_unix_ns: 2_500_000_000,
        until_unix_ns: 5_000_000_000,
        interrupted: false,
    };

    #[test]
    fn samples_fall_on_whole_seconds_and_end() {
        let mut at = WINDOW.start_unix_ns;
        let mut seconds = Vec::new();
        while at < 6_000_000_000 {
            seconds.push(at as f64 / 1e9);
            at = WINDOW.next_sample(at);
        }
        assert_eq!(seconds, [0.5, 1.5, 2.5, 3.5, 4.5, 5.0, 5.5]);
        assert!(WINDOW.is_edge(2_500_000_100) && WINDOW.is_edge(5_000_000_000));
        assert!(!WINDOW.is_edge(2_499_999_999) && !WINDOW.is_edge(3_500_000_000));
        assert_eq!((WINDOW.hold_s(), WINDOW.load_s()), (2.5, 4.5));
    }

    fn progress(role: ProcessRole, at_s: f64, counters: &[(&str, u64)]) -> ChildEvent {
        let counters = counters
            .iter()
            .map(|(name, value)| ((*name).to_owned(), *value));
        let progress = WorkerProgress {
            unix_ns: (at_s * 1e9) as u64,
            counters: counters.collect(),
            p50_us: Some(700),
            p99_us: Some(900),
            second: None,
        };
        ChildEvent::Event(role.into(), WorkerEvent::Progress(progress))
    }

    /// Returns a cell of two clients from the events of a good run, after `change`.
    fn cell(change: impl FnOnce(&mut Collected)) -> Cell {
        let path = std::env::temp_dir().join(format!(
            "weir-result-{}-{:?}.hlog",
            std::process::id(),
            std::thread::current().id()
        ));
        let mut collected = Collected::new(&path, "test", 0).unwrap();
        std::fs::remove_file(&path).unwrap();
        for second in 0..7_u64 {
            let (at_s, count) = (second as f64, second * 100);
            let received = [
                ("updates", count),
                ("bytes_received", count),
                ("busy_permille", 100),
            ];
            collected.handle(progress(ProcessRole::Clients, at_s, &received));
            collected.handle(progress(ProcessRole::Produce, at_s, &[("acked", count)]));
        }
        let mut histogram = Histogram::new();
        histogram.record_n(1_000_000, 500);
        for tag in [LatencyTag::Response, LatencyTag::ScheduleLag] {
            collected.stages.insert(tag, histogram.clone());
        }
        let produce = ProduceSummary {
            sent: 300,
            bytes_sent: 30_000,
            acked_in_window: 250,
            ..ProduceSummary::default()
        };
        let delivery = DeliverySummary {
            clients: 2,
            counts: DeliveryCounts {
                deliveries_in_window: 501,
                duplicated: 1,
                lost: 4,
                ..DeliveryCounts::default()
            },
            settled: true,
            latency_resolution_ns: 1,
            ..DeliverySummary::default()
        };
        for (role, summary) in [
            (ProcessRole::Produce, Summary::Produce(produce)),
            (ProcessRole::Clients, Summary::Delivery(delivery)),
        ] {
            let event = WorkerEvent::Final { summary };
            collected.handle(ChildEvent::Event(role.into(), event));
        }
        change(&mut collected);
        let plan = crate::plan::tests::built_in("keyed");
        let measured = Measured {
            plan: &plan,
            receiving: ProcessRole::Clients,
            collected: &collected,
            usage: &CellUsage::default(),
        };
        let mut cell = Cell::default();
        build(&mut cell, &WINDOW, measured);
        cell
    }

    fn reasons(change: impl FnOnce(&mut Collected)) -> Vec<String> {
        match cell(change).status {
            CellStatus::Invalid { reasons } => reasons,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn results_cover_the_measured_window() {
        let cell = cell(|_| {});
        assert!(cell.is_valid(), "{:?}", cell.status);
        assert_eq!(cell.achieved_records_per_s, Some(100.0));
        assert_eq!(cell.record_bytes_mean, Some(100.0));
        let delivery = cell.delivery.unwrap();
        assert_eq!(
            (delivery.delivered, delivery.expected, delivery.lost),
            (500, 504, 4)
        );
        assert_eq!(delivery.delivered_per_s, Some(200.0));
        assert_eq!(delivery.received_bytes, 250);
        let ends: Vec<f64> = cell.series.iter().map(|point| point.t_s).collect();
        assert_eq!(ends, [-1.0, 0.0, 1.0, 2.0, 2.5]);
        assert_eq!(cell.series[1].delivered_per_s, Some(100.0));
        assert_eq!(cell.series[1].p99_us, Some(900.0));
        assert_eq!(cell.latency[STAGE_RESPONSE].count, 500);
    }

    #[test]
    fn benchmark_failures_invalidate_the_cell() {
        let mut late = Histogram::new();
        late.record_n(50_000_000, 300);
        let lag = reasons(|events| drop(events.stages.insert(LatencyTag::ScheduleLag, late)));
        assert!(
            lag[0].starts_with("generator behind schedule: p99 50."),
            "{lag:?}"
        );
        let mut once = Histogram::new();
        once.record_n(1_000_000, 29);
        once.record_n(90_000_000, 1);
        let one_of_few = cell(|events| drop(events.stages.insert(LatencyTag::ScheduleLag, once)));
        assert!(one_of_few.is_valid(), "{:?}", one_of_few.status);
        let busy = reasons(|events| {
            for second in 3..6 {
                let at_s = f64::from(second) + 0.4;
                events.handle(progress(
                    ProcessRole::Clients,
                    at_s,
                    &[("busy_permille", 5000)],
                ));
            }
        });
        assert!(
            busy[0].starts_with("clients saturated: busy share"),
            "{busy:?}"
        );
        let one_of_two = reasons(|events| {
            events.set_hosts(ProcessRole::Clients, ["a", "b"].map(str::to_owned));
            for (index, permille) in [(0, 500), (1, 960)] {
                let role = ProcessRole::Clients;
                let counters = [("busy_permille".to_owned(), permille)];
                let report = WorkerProgress {
                    unix_ns: 3_000_000_000,
                    counters: counters.into(),
                    ..WorkerProgress::default()
                };
                let instance = RoleInstance { role, index };
                events.handle(ChildEvent::Event(instance, WorkerEvent::Progress(report)));
            }
        });
        assert_eq!(one_of_two.len(), 1, "{one_of_two:?}");
        assert!(
            one_of_two[0].starts_with("clients on b saturated: busy share 0.96"),
            "{one_of_two:?}"
        );
        let unchecked = reasons(|events| {
            events.delivery.as_mut().unwrap().settled = false;
            events.errors.push("floor exited".to_owned());
        });
        assert_eq!(
            unchecked,
            [
                "floor exited",
                "deliveries could not be checked against the ledger"
            ]
        );
        let nothing = reasons(|events| {
            events.produced.clear();
            events.delivery = None;
            events.stages = BTreeMap::new();
        });
        assert_eq!(
            nothing,
            [
                "the receivers reported no result",
                "the producers reported no result"
            ]
        );
    }
}
