//! The agents of a run from the coordinator's side, and their merged reports.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use weir_stats::Histogram;

use weir_load::delivery::DeliverySummary;
use weir_load::worker::line;
use weir_load::worker::protocol::{GAUGES, WorkerCommand, WorkerProgress};

#[derive(Debug)]
pub(super) struct AgentHandle {
    pub(super) name: String,
    pub(super) pid: u32,
    pub(super) stream: TcpStream,
    pub(super) ready: Option<u64>,
    pub(super) progress: WorkerProgress,
    /// The progress was not reported yet.
    pub(super) fresh: bool,
    pub(super) last_event_at: Instant,
    pub(super) summary: Option<DeliverySummary>,
    pub(super) closed: bool,
}

#[derive(Debug, Default)]
pub(super) struct AgentSet {
    pub(super) handles: Vec<AgentHandle>,
    /// Response times of all agents since the last progress.
    pub(super) second: Histogram,
}

impl AgentHandle {
    /// Sends a line. A write error closes the connection, whose reading thread reports the loss.
    pub(super) fn send(&mut self, line: &[u8]) {
        if let Err(error) = self.stream.write_all(line) {
            tracing::debug!(agent = self.name, %error, "failed to send command");
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for AgentHandle {
    /// Closes the connection for both directions; the reading thread has its own handle.
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl AgentSet {
    pub(super) fn command(&mut self, command: &WorkerCommand) {
        let line = line(command);
        self.handles
            .iter_mut()
            .for_each(|handle| handle.send(&line));
    }

    /// Returns `true` if every open agent has reported since the last progress, and at least one
    /// has.
    pub(super) fn all_fresh(&self) -> bool {
        let mut handles = self.handles.iter();
        handles.all(|handle| handle.fresh || handle.closed)
            && self.handles.iter().any(|handle| handle.fresh)
    }

    pub(super) fn progress(&mut self, unix_ns: u64) -> WorkerProgress {
        let mut counters: BTreeMap<String, u64> = BTreeMap::new();
        for handle in &mut self.handles {
            handle.fresh = false;
            for (name, &value) in &handle.progress.counters {
                let sum = counters.entry(name.clone()).or_default();
                match GAUGES.contains(&name.as_str()) {
                    // The busiest agent shows whether the benchmarking tool is saturated.
                    true => *sum = value.max(*sum),
                    false => *sum += value,
                }
            }
        }
        let us = |percentile| self.second.percentile_ns(percentile).map(|ns| ns / 1000);
        let (p50_us, p99_us) = (us(50.0), us(99.0));
        self.second.clear();
        WorkerProgress {
            unix_ns,
            counters,
            p50_us,
            p99_us,
            second: None,
        }
    }

    /// Returns the merged summary once all agents have sent theirs.
    pub(super) fn summary(&self) -> Option<DeliverySummary> {
        let mut merged = DeliverySummary::default();
        for handle in &self.handles {
            merged.merge(handle.summary.as_ref()?);
        }
        Some(merged)
    }
}
