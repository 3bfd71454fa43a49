//! One or several processes of a role: the events of each, and those of all together.

use weir_load::delivery::DeliverySummary;
use weir_load::worker::protocol::{GAUGES, ProduceSummary, WorkerProgress};
use weir_stats::Histogram;

use super::child::{ProcessRole, RoleInstance};

/// Processes of a role. Each runs a share; the events of the group are those of one process with
/// all shares.
#[derive(Debug)]
pub(super) struct RoleGroup {
    processes: Vec<ProcessEvents>,
    /// Response times of all processes since the last report of the group.
    second: Histogram,
}

/// Events of one process.
#[derive(Debug, Default)]
pub(super) struct ProcessEvents {
    /// Machine of the process; `None`: this one.
    pub(super) host: Option<String>,
    connections: Option<u64>,
    /// Reports; empty if it is the only process.
    pub(super) reports: Vec<WorkerProgress>,
    /// It has reported since the last report of the group.
    is_fresh: bool,
    /// Response times in the measured window; empty if it is the only process.
    pub(super) response: Histogram,
    /// Last result of a receiver.
    pub(super) delivery: Option<DeliverySummary>,
    /// Last result of a producer.
    produced: Option<ProduceSummary>,
}

impl ProcessEvents {
    /// Returns `true` if the process has sent its last result.
    pub(super) fn has_ended(&self) -> bool {
        self.delivery.is_some() || self.produced.is_some()
    }
}

/// One process on this machine.
impl Default for RoleGroup {
    fn default() -> Self {
        Self {
            processes: vec![ProcessEvents::default()],
            second: Histogram::new(),
        }
    }
}

impl RoleGroup {
    /// Returns a group with a process on each of some machines.
    pub(super) fn on(hosts: impl IntoIterator<Item = String>) -> Self {
        let processes = hosts.into_iter().map(|host| ProcessEvents {
            host: Some(host),
            ..ProcessEvents::default()
        });
        Self {
            processes: processes.collect(),
            second: Histogram::new(),
        }
    }

    /// Returns `true` if the role has several processes.
    pub(super) fn is_shared(&self) -> bool {
        self.processes.len() > 1
    }

    pub(super) fn processes(&self) -> &[ProcessEvents] {
        &self.processes
    }

    /// Returns the connections of all processes once all are ready.
    pub(super) fn ready(&mut self, index: usize, connections: u64) -> Option<u64> {
        self.processes.get_mut(index)?.connections = Some(connections);
        self.processes.iter().map(|it| it.connections).sum()
    }

    /// Returns the report of the group once all processes have reported. `second` has the values
    /// of the last second.
    pub(super) fn report(
        &mut self,
        index: usize,
        report: WorkerProgress,
        second: Option<&Histogram>,
    ) -> Option<WorkerProgress> {
        if !self.is_shared() {
            return Some(report);
        }
        let process = self.processes.get_mut(index)?;
        process.reports.push(report);
        process.is_fresh = true;
        if let Some(second) = second {
            self.second.merge(second);
        }
        let is_awaited = |it: &ProcessEvents| !it.is_fresh && !it.has_ended();
        match self.processes.iter().any(is_awaited) {
            true => None,
            false => self.merged(),
        }
    }

    /// Returns the sum of all reports, at the latest time that those of all processes cover.
    fn merged(&mut self) -> Option<WorkerProgress> {
        let running = self.processes.iter().filter(|it| !it.has_ended());
        let last = running.filter_map(|it| Some(it.reports.last()?.unix_ns));
        let us = |percentile| Some(self.second.percentile_ns(percentile)? / 1000);
        let mut merged = WorkerProgress {
            unix_ns: last.min()?,
            p50_us: us(50.0),
            p99_us: us(99.0),
            ..WorkerProgress::default()
        };
        for process in &mut self.processes {
            process.is_fresh = false;
            let Some(latest) = process.reports.last() else {
                continue;
            };
            for (name, &value) in &latest.counters {
                let sum = merged.counters.entry(name.clone()).or_default();
                if GAUGES.contains(&name.as_str()) {
                    // The busiest process shows whether the benchmarking tool is saturated.
                    *sum = value.max(*sum);
                } else {
                    let value = counter_at(&process.reports, name, merged.unix_ns);
                    *sum += value.unwrap_or(0.0) as u64;
                }
            }
        }
        self.second.clear();
        Some(merged)
    }

    /// Returns the summary of all processes once all have sent theirs.
    pub(super) fn finished(
        &mut self,
        index: usize,
        summary: DeliverySummary,
    ) -> Option<DeliverySummary> {
        self.processes.get_mut(index)?.delivery = Some(summary);
        let mut merged = DeliverySummary::default();
        for process in &self.processes {
            merged.merge(process.delivery.as_ref()?);
        }
        Some(merged)
    }

    /// Returns the summary of all producers once all have sent theirs.
    pub(super) fn produced(
        &mut self,
        index: usize,
        summary: ProduceSummary,
    ) -> Option<ProduceSummary> {
        self.processes.get_mut(index)?.produced = Some(summary);
        let mut merged = ProduceSummary::default();
        for process in &self.processes {
            merged.merge(process.produced.as_ref()?);
        }
        Some(merged)
    }

    /// Adds response times in the measured window, if there are several processes.
    pub(super) fn response(&mut self, index: usize, histogram: &Histogram) {
        if !self.is_shared() {
            return;
        }
        if let Some(process) = self.processes.get_mut(index) {
            process.response.merge(histogram);
        }
    }

    /// Returns a text that names the processes that are not ready.
    pub(super) fn not_ready(&self, role: ProcessRole) -> String {
        self.named(role, |it| it.connections.is_none())
    }

    /// Returns a text that names the processes without a last result.
    pub(super) fn not_finished(&self, role: ProcessRole) -> String {
        self.named(role, |it| !it.has_ended())
    }

    /// Returns the name of a process in messages, with its machine.
    pub(super) fn label(&self, instance: RoleInstance) -> String {
        let process = self.processes.get(instance.index);
        let host = process.and_then(|it| it.host.as_ref());
        let name = instance.role.name();
        host.map_or_else(|| name.to_owned(), |host| format!("{name} on {host}"))
    }

    fn named(&self, role: ProcessRole, is_named: impl Fn(&ProcessEvents) -> bool) -> String {
        let named = self.processes.iter().filter(|it| is_named(it));
        let hosts: Vec<&str> = named.filter_map(|it| it.host.as_deref()).collect();
        match hosts.is_empty() {
            true => role.name().to_owned(),
            false => format!("{} on {}", role.name(), hosts.join(", ")),
        }
    }
}

/// Returns a counter at `unix_ns`, interpolated between reports; `None` without reports.
pub(super) fn counter_at(reports: &[WorkerProgress], name: &str, unix_ns: u64) -> Option<f64> {
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

/// Returns the mean of a gauge in the reports inside a time span.
pub(super) fn gauge_mean(
    reports: &[WorkerProgress],
    name: &str,
    (from, until): (u64, u64),
) -> Option<f64> {
    let inside = |report: &&WorkerProgress| report.unix_ns > from && report.unix_ns <= until;
    let values: Vec<f64> = reports
        .iter()
        .filter(inside)
        .filter_map(|report| report.counters.get(name))
        .map(|v| *v as f64)
        .collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use weir_load::delivery::DeliveryCounts;
    use weir_load::worker::protocol::Quantiles;

    use super::*;

    fn two() -> RoleGroup {
        RoleGroup::on(["a", "b"].map(str::to_owned))
    }

    fn report(unix_ns: u64, updates: u64, busy_permille: u64) -> WorkerProgress {
        let counters = [("updates", updates), ("busy_permille", busy_permille)];
        let counters = counters.map(|(name, value)| (name.to_owned(), value));
        WorkerProgress {
            unix_ns,
            counters: counters.into(),
            ..WorkerProgress::default()
        }
    }

    fn times(from_us: u64) -> Histogram {
        let mut histogram = Histogram::new();
        (from_us..from_us + 10).for_each(|us| histogram.record_ns(us * 1000));
        histogram
    }

    #[test]
    fn only_process_is_passed_on() {
        let mut one = RoleGroup::default();
        assert_eq!(one.ready(0, 5), Some(5));
        let own = report(10, 1, 2);
        assert_eq!(one.report(0, own.clone(), None), Some(own));
        assert_eq!(one.label(ProcessRole::Clients.into()), "clients");
    }

    #[test]
    fn group_is_ready_once_all_are() {
        let mut group = two();
        assert_eq!(group.ready(1, 20), None);
        assert_eq!(group.not_ready(ProcessRole::Clients), "clients on a");
        assert_eq!(group.ready(0, 21), Some(41));
    }

    #[test]
    fn reports_are_summed_at_a_common_time() {
        let mut group = two();
        assert_eq!(
            group.report(0, report(1000, 100, 10), Some(&times(1))),
            None
        );
        let first = group.report(1, report(1400, 140, 30), Some(&times(101)));
        let first = first.unwrap();
        assert_eq!(first.unix_ns, 1000);
        assert_eq!(first.counters["updates"], 240);
        assert_eq!(first.counters["busy_permille"], 30);
        assert!(
            first.p50_us < Some(100) && first.p99_us > Some(100),
            "{first:?}"
        );
        assert_eq!(group.report(0, report(2000, 200, 50), None), None);
        let second = group.report(1, report(2400, 240, 20), None).unwrap();
        // Of the second process 60 % of the way from 140 to 240.
        assert_eq!(second.counters["updates"], 200 + 200);
        assert_eq!((second.unix_ns, second.p50_us), (2000, None));
    }

    #[test]
    fn producers_are_merged_once_all_have_ended() {
        let mut group = two();
        let summary = |acked, p99_ns| ProduceSummary {
            acked,
            schedule_lag: Quantiles {
                count: acked,
                p99_ns,
                ..Quantiles::default()
            },
            errors: [("timed out".to_owned(), 1)].into(),
            ..ProduceSummary::default()
        };
        assert_eq!(group.produced(1, summary(3, 70)), None);
        assert_eq!(group.not_finished(ProcessRole::Produce), "produce on a");
        let merged = group.produced(0, summary(4, 50)).unwrap();
        assert_eq!((merged.acked, merged.errors["timed out"]), (7, 2));
        let lag = merged.schedule_lag;
        assert_eq!((lag.count, lag.p99_ns), (7, 70));
    }

    #[test]
    fn ended_process_does_not_delay_reports() {
        let mut group = two();
        let summary = |lost| DeliverySummary {
            clients: 2,
            counts: DeliveryCounts {
                lost,
                ..DeliveryCounts::default()
            },
            settled: true,
            ..DeliverySummary::default()
        };
        group.report(0, report(1000, 100, 0), None);
        assert_eq!(group.finished(0, summary(1)), None);
        let label = group.not_finished(ProcessRole::Clients);
        assert_eq!(label, "clients on b");
        for unix_ns in [1500, 2500] {
            let merged = group.report(1, report(unix_ns, 50, 0), None).unwrap();
            assert_eq!((merged.unix_ns, merged.counters["updates"]), (unix_ns, 150));
        }
        let merged = group.finished(1, summary(2)).unwrap();
        assert_eq!((merged.clients, merged.counts.lost), (4, 3));
        assert!(merged.settled);
    }
}
