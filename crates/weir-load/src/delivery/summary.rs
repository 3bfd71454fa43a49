//! Delivery counts of one client, and totals of many.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Counts of one client, or of several together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliveryCounts {
    /// Deliveries of records due in the window, including duplicates.
    pub deliveries_in_window: u64,
    /// Records due to the client in the window that did not arrive.
    pub lost: u64,
    /// Repeated deliveries in the window.
    pub duplicated: u64,
    /// Deliveries in the window after a later record of the same key and producer.
    pub reordered: u64,
    /// Records in the window that were skipped where conflation is allowed: a later one of the key
    /// arrived.
    pub conflated: u64,
    /// Deliveries in the window that could not be checked: without stamp, or too old.
    pub unchecked: u64,
    /// All deliveries, inside and outside the window.
    pub updates_total: u64,
}

/// Deliveries of a set of clients. Summaries of several workers can be merged.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeliverySummary {
    /// Number of clients.
    pub clients: u64,
    /// Sums over all clients.
    #[serde(flatten)]
    pub counts: DeliveryCounts,
    /// Bytes received, as the worker counts them.
    pub bytes_received: u64,
    /// Connections or sessions that ended early.
    pub disconnects: u64,
    /// Resolution of the latencies in nanoseconds: 1, or 1,000,000 if due times were parsed from
    /// text.
    pub latency_resolution_ns: u64,
    /// Deliveries timed by the record's timestamp, because there was no due time.
    #[serde(default)]
    pub timed_by_timestamp: u64,
    /// `true` if the broker set these timestamps (`LogAppendTime`), `false` if the producer did
    /// (`CreateTime`); `None` if unknown.
    #[serde(default)]
    pub log_append_time: Option<bool>,
    /// `true` if losses were determined with a producer's ledger; `false`: only gaps are known.
    pub settled: bool,
    /// Number of assignments that members of consumer groups received, including the first ones.
    #[serde(default)]
    pub group_assignments: u64,
    /// Commits of consumer groups.
    #[serde(default)]
    pub group_commits: u64,
    /// Records that arrived after a pause of the consumers; `None`: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backlog: Option<BacklogSummary>,
    /// Per-client 99th percentile of response latency in microseconds.
    pub client_p99_us: Spread,
    /// Per-client deliveries in the window.
    pub client_deliveries: Spread,
    /// Errors by text.
    pub errors: BTreeMap<String, u64>,
}

/// Backlog that built up while consumers paused, and how it was drained.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BacklogSummary {
    /// Deliveries, to all consumers together, of records due during the pause.
    pub records: u64,
    /// Time from the end of the pause to the last of them, in nanoseconds.
    pub drain_ns: u64,
}

impl BacklogSummary {
    fn merge(&mut self, other: &Self) {
        self.records += other.records;
        self.drain_ns = self.drain_ns.max(other.drain_ns);
    }

    /// Returns the deliveries per second from the end of the pause to the last one.
    pub fn records_per_s(&self) -> f64 {
        self.records as f64 * 1e9 / self.drain_ns.max(1) as f64
    }
}

impl DeliveryCounts {
    fn add(&mut self, other: &Self) {
        self.deliveries_in_window += other.deliveries_in_window;
        self.lost += other.lost;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.conflated += other.conflated;
        self.unchecked += other.unchecked;
        self.updates_total += other.updates_total;
    }
}

impl DeliverySummary {
    /// Adds one client; `p99_us` is its own 99th percentile, if it had a delivery in the window.
    pub fn add_client(&mut self, counts: &DeliveryCounts, p99_us: Option<u64>) {
        self.clients += 1;
        self.counts.add(counts);
        self.client_deliveries.add(counts.deliveries_in_window, 1);
        if let Some(p99_us) = p99_us {
            self.client_p99_us.add(p99_us, 1);
        }
    }

    /// Adds the summary of another worker.
    pub fn merge(&mut self, other: &Self) {
        self.settled = other.settled && (self.settled || self.clients == 0);
        self.clients += other.clients;
        self.counts.add(&other.counts);
        self.bytes_received += other.bytes_received;
        self.disconnects += other.disconnects;
        self.group_assignments += other.group_assignments;
        self.group_commits += other.group_commits;
        self.timed_by_timestamp += other.timed_by_timestamp;
        self.log_append_time = self.log_append_time.or(other.log_append_time);
        self.latency_resolution_ns = self.latency_resolution_ns.max(other.latency_resolution_ns);
        if let Some(other) = &other.backlog {
            self.backlog.get_or_insert_default().merge(other);
        }
        self.client_p99_us.merge(&other.client_p99_us);
        self.client_deliveries.merge(&other.client_deliveries);
        for (text, count) in &other.errors {
            *self.errors.entry(text.clone()).or_default() += count;
        }
    }
}

/// Counts an error by its text; texts beyond [`ERROR_TEXTS_MAX`] share one entry.
pub(crate) fn count_error(errors: &mut BTreeMap<String, u64>, text: &str) {
    if let Some(count) = errors.get_mut(text) {
        *count += 1;
        return;
    }
    let has_space = errors.len() < ERROR_TEXTS_MAX;
    let text = if has_space { text } else { "other errors" };
    *errors.entry(text.to_owned()).or_default() += 1;
}

const ERROR_TEXTS_MAX: usize = 100;

/// Exact distribution of a value over clients: each value with its number of clients, ascending.
/// Percentiles of merged workers are therefore as exact as those of one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread(Vec<(u64, u64)>);

impl Spread {
    /// Adds `clients` clients with this value.
    pub fn add(&mut self, value: u64, clients: u64) {
        match self.0.binary_search_by_key(&value, |entry| entry.0) {
            Ok(at) => self.0[at].1 += clients,
            Err(at) => self.0.insert(at, (value, clients)),
        }
    }

    /// Adds the clients of another worker.
    pub fn merge(&mut self, other: &Self) {
        for &(value, clients) in &other.0 {
            self.add(value, clients);
        }
    }

    /// Returns the number of clients with a value.
    pub fn clients(&self) -> u64 {
        self.0.iter().map(|entry| entry.1).sum()
    }

    /// Returns the smallest value.
    pub fn min(&self) -> Option<u64> {
        self.0.first().map(|entry| entry.0)
    }

    /// Returns the largest value.
    pub fn max(&self) -> Option<u64> {
        self.0.last().map(|entry| entry.0)
    }

    /// Returns the smallest value that at least `percent` of the clients do not exceed (nearest
    /// rank).
    pub fn percentile(&self, percent: u8) -> Option<u64> {
        let clients = u128::from(self.clients());
        let rank = (clients * u128::from(percent.min(100)))
            .div_ceil(100)
            .max(1);
        let mut passed = 0;
        let hit = self.0.iter().find(|entry| {
            passed += u128::from(entry.1);
            passed >= rank
        });
        hit.map(|entry| entry.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_use_nearest_rank() {
        let mut spread = Spread::default();
        assert_eq!(
            (spread.min(), spread.max(), spread.percentile(50)),
            (None, None, None)
        );
        for value in 1..=10 {
            spread.add(value * 100, 1);
        }
        assert_eq!(spread.percentile(0), Some(100));
        assert_eq!(spread.percentile(50), Some(500));
        assert_eq!(spread.percentile(90), Some(900));
        assert_eq!(spread.percentile(100), Some(1000));
    }

    #[test]
    fn merged_workers_equal_a_single_one() {
        let clients = [(10, Some(1_000_000)), (20, Some(3_000_000)), (0, None)].map(|(n, p99)| {
            let counts = DeliveryCounts {
                deliveries_in_window: n,
                updates_total: n + 1,
                lost: 20 - n,
                ..DeliveryCounts::default()
            };
            (counts, p99)
        });
        let sum = |part: &[(DeliveryCounts, Option<u64>)]| {
            let mut summary = DeliverySummary {
                settled: true,
                ..DeliverySummary::default()
            };
            for (counts, p99) in part {
                summary.add_client(counts, *p99);
            }
            count_error(&mut summary.errors, "closed");
            summary
        };
        let mut merged = sum(&clients[..1]);
        merged.merge(&sum(&clients[1..]));
        let mut whole = sum(&clients);
        count_error(&mut whole.errors, "closed");
        assert_eq!(merged, whole);
        assert_eq!(merged.counts.lost, 30);
        assert_eq!(merged.client_p99_us.clients(), 2);
        assert_eq!(merged.client_deliveries.min(), Some(0));
    }
}
