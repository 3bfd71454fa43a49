//! Progress of a run, for display.

use std::collections::BTreeMap;

/// Receiver of progress information. All calls come from the thread that runs the plan.
pub trait Observer {
    /// Reports the start of a longer operation or a notable event.
    fn note(&mut self, text: &str);

    /// Reports the start of cell `number` of `cells`, named `id`.
    fn cell(&mut self, number: usize, cells: usize, id: &str);

    /// Reports the state of the current cell, about once per second.
    fn live(&mut self, live: &Live);
}

/// State of the current cell.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Live {
    /// Current phase: `connect`, `warm-up`, `hold` or `drain`.
    pub phase: &'static str,
    /// Seconds since the start of the load; 0 before.
    pub elapsed_s: f64,
    /// Planned seconds of load: warm-up and measured window.
    pub total_s: f64,
    /// Connected clients.
    pub connected: u64,
    /// Clients of this level.
    pub clients: u64,
    /// Target rate in records per second.
    pub offered_per_s: f64,
    /// Records acknowledged by the broker per second.
    pub achieved_per_s: Option<f64>,
    /// Deliveries per second.
    pub delivered_per_s: Option<f64>,
    /// Median response time of the last second.
    pub p50_us: Option<f64>,
    /// 99th percentile of the response time in the last second.
    pub p99_us: Option<f64>,
    /// 99th percentile of the schedule lag in the last second.
    pub lag_p99_us: Option<f64>,
    /// Outstanding deliveries of acknowledged records. Approximate, because counters arrive once
    /// per second.
    pub backlog: Option<u64>,
    /// Cores in use, by role.
    pub cpu_cores: BTreeMap<String, f64>,
}
