//! From what the parts said to one cell of the run file, and whether it counts.

use weir_stats::NegativeCount;
use weir_stats::run::{
    Cell, CellStatus, Delivery, Fairness, LatencySummary, Point, RoleUsage, STAGE_PUBLISH_ACK,
    STAGE_RESPONSE, STAGE_SCHEDULE_LAG, STAGE_SERVICE,
};

use super::child::Part;
use super::collect::Collected;
use super::usage::Usage;
use crate::delivery::DeliverySummary;
use crate::plan::Plan;
use crate::worker::protocol::Tag;

/// The measured window of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    /// First due instant of all.
    pub(super) start_unix_ns: u64,
    /// First due instant that counts.
    pub(super) from_unix_ns: u64,
    /// First due instant that no longer counts.
    pub(super) until_unix_ns: u64,
    /// Whether the user ended it early.
    pub(super) interrupted: bool,
}

impl Window {
    pub(super) fn contains(&self, due_unix_ns: u64) -> bool {
        (self.from_unix_ns..self.until_unix_ns).contains(&due_unix_ns)
    }

    /// Length in seconds.
    pub(super) fn hold_s(&self) -> f64 {
        self.until_unix_ns.saturating_sub(self.from_unix_ns) as f64 / 1e9
    }

    /// Seconds of load up to its end.
    pub(super) fn load_s(&self) -> f64 {
        self.until_unix_ns.saturating_sub(self.start_unix_ns) as f64 / 1e9
    }

    /// Whether a sample taken now, at its due time or just after it, is the window's first or last.
    pub(super) fn is_edge(&self, now_unix_ns: u64) -> bool {
        let edges = [self.from_unix_ns, self.until_unix_ns];
        edges
            .iter()
            .any(|edge| (*edge..*edge + SECOND_NS / 2).contains(&now_unix_ns))
    }

    /// The next instant to sample after `now`: whole seconds from the window's begin, and its end.
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

/// Where the figures of a cell come from.
#[derive(Clone, Copy)]
pub(super) struct Measured<'a> {
    pub(super) plan: &'a Plan,
    pub(super) receiving: Part,
    pub(super) collected: &'a Collected,
    pub(super) usage: &'a Usage,
}

/// Fills the cell with what was measured.
pub(super) fn build(mut cell: Cell, window: &Window, measured: Measured<'_>) -> Cell {
    cell.hold_s = window.hold_s();
    if window.interrupted {
        cell.notes.push(format!(
            "interrupted after {:.1} of {:.1} s",
            cell.hold_s,
            measured.plan.hold.as_secs_f64()
        ));
    }
    if let Some(produce) = &measured.collected.produce {
        cell.achieved_records_per_s = Some(produce.acked_in_window as f64 / cell.hold_s);
        if produce.sent > 0 {
            cell.record_bytes_mean = Some(produce.bytes_sent as f64 / produce.sent as f64);
        }
        for (text, count) in &produce.errors {
            cell.notes.push(format!("producer: {count} x {text}"));
        }
    }
    measured.latency(&mut cell);
    let span = (window.from_unix_ns, window.until_unix_ns);
    if let Some(summary) = &measured.collected.delivery {
        cell.delivery = Some(measured.delivery(summary, span, cell.hold_s));
        cell.fairness = fairness(summary);
    }
    let delivered = cell
        .delivery
        .as_ref()
        .map_or(0, |delivery| delivery.delivered);
    cell.roles = measured.usage.roles(span, cell.clients, delivered);
    measured.network(&mut cell.roles, span);
    cell.series = measured.series(window);
    if let Some((busy_share, steal_share)) = measured.usage.machine(span) {
        cell.saturated_role = saturated(&cell.roles, busy_share);
        if steal_share > STEAL_SHARE_MAX {
            let percent = steal_share * 100.0;
            cell.notes.push(format!(
                "another guest of the host took {percent:.1} % of the time"
            ));
        }
    }
    let reasons = measured.faults(span);
    if !reasons.is_empty() {
        cell.status = CellStatus::Invalid { reasons };
    }
    cell
}

impl Measured<'_> {
    fn latency(&self, cell: &mut Cell) {
        let resolution_ns = self
            .collected
            .delivery
            .as_ref()
            .map_or(1, |summary| summary.latency_resolution_ns);
        let early = self
            .collected
            .progress
            .get(&self.receiving)
            .and_then(|all| all.last());
        let early = early
            .and_then(|last| last.counters.get("early").copied())
            .unwrap_or(0);
        for (tag, stage) in STAGES {
            let Some(histogram) = self.collected.stages.get(&tag) else {
                continue;
            };
            let count = if tag == Tag::Response { early } else { 0 };
            let negative = NegativeCount {
                count,
                ..NegativeCount::default()
            };
            let resolution_us = match tag {
                Tag::Response => resolution_ns as f64 / 1e3,
                _ => 1e-3,
            };
            let summary = LatencySummary::of(histogram, negative, resolution_us);
            cell.latency.insert(stage.to_owned(), summary);
        }
    }

    fn delivery(&self, summary: &DeliverySummary, span: (u64, u64), hold_s: f64) -> Delivery {
        let delivered = summary
            .deliveries_in_window
            .saturating_sub(summary.duplicated);
        let received = self.counter_in(self.receiving, "bytes_received", span);
        let received_bytes = received.unwrap_or(0.0).max(0.0);
        Delivery {
            expected: delivered + summary.lost + summary.conflated,
            delivered,
            lost: summary.lost,
            duplicated: summary.duplicated,
            reordered: summary.reordered,
            conflated: summary.conflated,
            unchecked: summary.unchecked,
            delivered_per_s: Some(delivered as f64 / hold_s),
            received_bytes: received_bytes as u64,
            received_mbit_per_s: Some(received_bytes * 8.0 / 1e6 / hold_s),
            disconnects: summary.disconnects,
            errors: summary.errors.clone(),
        }
    }

    fn counter_in(&self, part: Part, name: &str, (from, until): (u64, u64)) -> Option<f64> {
        let at = |unix_ns| self.collected.counter_at(part, name, unix_ns);
        Some(at(until)? - at(from)?)
    }

    /// What the parts counted themselves: `/proc` counts no bytes per process.
    fn network(&self, roles: &mut [RoleUsage], span: (u64, u64)) {
        for role in roles {
            let part = Part::COUNTING
                .into_iter()
                .find(|part| part.name() == role.role);
            let counted = |name| {
                let bytes = self.counter_in(part?, name, span)?;
                Some(bytes as u64)
            };
            role.network_rx_bytes = counted("bytes_received");
            role.network_tx_bytes = counted("bytes_sent");
            if role.network_rx_bytes.or(role.network_tx_bytes).is_some() {
                role.network_source = "counted by the process".to_owned();
            } else if role.role == "broker" && self.receiving == Part::Consume {
                let bytes = self.counter_in(self.receiving, "bytes_received", span);
                role.network_tx_bytes = bytes.map(|bytes| bytes as u64);
                role.network_source = "counted by its consumers".to_owned();
            }
        }
    }

    /// One point a second, from the first reports to the end of the window.
    fn series(&self, window: &Window) -> Vec<Point> {
        let offset = |unix_ns: u64| (unix_ns as i128 - window.from_unix_ns as i128) as f64 / 1e9;
        let mut ends = Vec::new();
        let mut at = window.next_sample(window.start_unix_ns);
        while at <= window.until_unix_ns {
            ends.push(at);
            at = window.next_sample(at);
        }
        let rate = |part, name, (from, until): (u64, u64)| {
            let span_s = (until - from) as f64 / 1e9;
            self.counter_in(part, name, (from, until))
                .map(|count| count / span_s)
        };
        ends.into_iter()
            .map(|end| {
                let span = (end.saturating_sub(SECOND_NS).max(window.start_unix_ns), end);
                let received = self.report_in(self.receiving, span);
                let produced = self.report_in(Part::Produce, span);
                Point {
                    t_s: offset(end),
                    offered_per_s: Some(self.plan.workload.rate_per_s),
                    achieved_per_s: rate(Part::Produce, "acked", span),
                    delivered_per_s: rate(self.receiving, "updates", span),
                    p50_us: received.map(|(p50_us, _)| p50_us),
                    p99_us: received.map(|(_, p99_us)| p99_us),
                    lag_p99_us: produced.map(|(_, p99_us)| p99_us),
                    cpu_cores: self.usage.cores_at(end + EDGE_NS),
                    backlog: None,
                }
            })
            .collect()
    }

    /// Median and 99th percentile that a part reported inside a span.
    fn report_in(&self, part: Part, (from, until): (u64, u64)) -> Option<(f64, f64)> {
        let reports = self.collected.progress.get(&part)?;
        let inside = |at: u64| at > from && at <= until;
        let report = reports.iter().rev().find(|report| inside(report.unix_ns))?;
        Some((report.p50_us as f64, report.p99_us as f64))
    }

    /// Why the figures do not show the system under test.
    fn faults(&self, span: (u64, u64)) -> Vec<String> {
        let validity = &self.plan.validity;
        let mut reasons = self.collected.faults.clone();
        let lag = self.collected.stages.get(&Tag::ScheduleLag);
        let lag_p99_ms = lag
            .and_then(|lag| lag.percentile_ns(99.0))
            .map(|ns| ns as f64 / 1e6);
        if let Some(lag_p99_ms) = lag_p99_ms.filter(|ms| *ms > validity.schedule_lag_p99_ms) {
            let limit = validity.schedule_lag_p99_ms;
            reasons.push(format!(
                "generator late: p99 {lag_p99_ms:.1} ms, limit {limit} ms"
            ));
        }
        let busy = self
            .collected
            .gauge_mean(self.receiving, "busy_permille", span);
        let busy = busy.map(|permille| permille / 1e3);
        if let Some(busy) = busy.filter(|busy| *busy > validity.clients_busy_share) {
            let (name, limit) = (self.receiving.name(), validity.clients_busy_share);
            reasons.push(format!(
                "{name} saturated: busy share {busy:.2}, limit {limit}"
            ));
        }
        match &self.collected.delivery {
            None => reasons.push("no account of the deliveries".to_owned()),
            Some(summary) if !summary.settled => {
                reasons.push("deliveries could not be checked against the ledger".to_owned());
            }
            Some(_) => {}
        }
        match &self.collected.produce {
            None => reasons.push("no account of what was produced".to_owned()),
            Some(produce) if produce.acked_in_window == 0 => {
                reasons.push("nothing was produced in the window".to_owned());
            }
            Some(_) => {}
        }
        reasons
    }
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

/// The largest consumer, if nearly the whole machine was busy.
fn saturated(roles: &[RoleUsage], busy_share: f64) -> Option<String> {
    let used = |role: &RoleUsage| role.cpu_cores_mean.unwrap_or(0.0);
    let largest = roles.iter().max_by(|a, b| used(a).total_cmp(&used(b)))?;
    (busy_share > SATURATED_SHARE).then(|| largest.role.clone())
}

const STAGES: [(Tag, &str); 4] = [
    (Tag::Response, STAGE_RESPONSE),
    (Tag::Service, STAGE_SERVICE),
    (Tag::ScheduleLag, STAGE_SCHEDULE_LAG),
    (Tag::PublishAck, STAGE_PUBLISH_ACK),
];
const SECOND_NS: u64 = 1_000_000_000;
/// The reading for a whole second is taken just after it.
const EDGE_NS: u64 = 100_000_000;
const SATURATED_SHARE: f64 = 0.95;
const STEAL_SHARE_MAX: f64 = 0.01;
