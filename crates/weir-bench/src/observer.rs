//! What a person may want to see while a run goes on.

use std::collections::BTreeMap;

/// Hears of a run's course. All calls come from the thread that runs it.
pub trait Observer {
    /// Something that takes time begins, or something worth knowing happened.
    fn note(&mut self, text: &str);

    /// Cell number `number` of `cells` begins; `id` names it.
    fn cell(&mut self, number: usize, cells: usize, id: &str);

    /// About once a second while a cell runs.
    fn live(&mut self, live: &Live);
}

/// The state of the cell that runs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Live {
    /// `connect`, `warm-up`, `hold` or `drain`.
    pub phase: &'static str,
    /// Seconds into the cell's load; 0 before.
    pub elapsed_s: f64,
    /// Seconds of load planned: warm-up and hold.
    pub total_s: f64,
    /// Clients that are connected.
    pub connected: u64,
    /// Clients of this level.
    pub clients: u64,
    /// Records per second: target.
    pub offered_per_s: f64,
    /// Records per second: acknowledged by the broker.
    pub achieved_per_s: Option<f64>,
    /// Deliveries per second.
    pub delivered_per_s: Option<f64>,
    /// Median response of the last second.
    pub p50_us: Option<f64>,
    /// 99th percentile of the response of the last second.
    pub p99_us: Option<f64>,
    /// 99th percentile of the generator's lateness in the last second.
    pub lag_p99_us: Option<f64>,
    /// Deliveries that are due, their records acknowledged, and not yet made; about, as counters come once a second.
    pub backlog: Option<u64>,
    /// Cores busy, by part.
    pub cpu_cores: BTreeMap<String, f64>,
}
