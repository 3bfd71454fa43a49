//! The agents of a run as the coordinator sees them, and what they say together.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::{Shutdown, TcpStream};
use std::time::Instant;

use weir_stats::Histogram;

use super::wire;
use crate::delivery::DeliverySummary;
use crate::worker::protocol::{LatencyInterval, LatencyTag, WorkerCommand, WorkerProgress};

/// One agent.
#[derive(Debug)]
pub(super) struct AgentHandle {
    /// Which one it is, for people.
    pub(super) name: String,
    pub(super) pid: u32,
    stream: TcpStream,
    pub(super) ready: Option<u64>,
    progress: WorkerProgress,
    /// Whether the progress is newer than what was told last.
    fresh: bool,
    pub(super) heard: Instant,
    pub(super) summary: Option<DeliverySummary>,
    pub(super) closed: bool,
}

/// All agents that have come.
#[derive(Debug, Default)]
pub(super) struct AgentSet {
    pub(super) members: Vec<AgentHandle>,
    /// Response of all agents since the last progress.
    second: Histogram,
}

impl AgentHandle {
    pub(super) fn new(name: String, pid: u32, stream: TcpStream) -> Self {
        Self {
            name,
            pid,
            stream,
            ready: None,
            progress: WorkerProgress::default(),
            fresh: false,
            heard: Instant::now(),
            summary: None,
            closed: false,
        }
    }

    /// Sends a line; one that cannot be sent is noticed by the end of the connection.
    pub(super) fn send(&mut self, line: &[u8]) {
        if let Err(error) = self.stream.write_all(line) {
            tracing::debug!(agent = self.name, %error, "command not sent");
            let _ = self.stream.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for AgentHandle {
    /// The thread that reads holds the connection too; this ends it for both sides.
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl AgentSet {
    /// Sends a command to all.
    pub(super) fn command(&mut self, command: &WorkerCommand) {
        let line = wire::line(command);
        for member in &mut self.members {
            member.send(&line);
        }
    }

    /// Connections of all agents, once all `wanted` are ready.
    pub(super) fn ready(&self, wanted: usize) -> Option<u64> {
        if self.members.len() < wanted {
            return None;
        }
        self.members.iter().map(|member| member.ready).sum()
    }

    pub(super) fn take_progress(&mut self, agent: usize, progress: WorkerProgress) {
        let member = &mut self.members[agent];
        member.progress = progress;
        member.fresh = true;
    }

    pub(super) fn take_interval(&mut self, interval: &LatencyInterval) -> Result<(), String> {
        if interval.tag == LatencyTag::Response {
            let histogram = Histogram::from_base64(&interval.histogram);
            self.second
                .merge(&histogram.map_err(|error| error.to_string())?);
        }
        Ok(())
    }

    /// Whether every agent that still works has reported since the last time.
    pub(super) fn all_fresh(&self) -> bool {
        self.members
            .iter()
            .all(|member| member.fresh || member.closed)
            && self.members.iter().any(|member| member.fresh)
    }

    /// The progress of all together.
    pub(super) fn progress(&mut self, unix_ns: u64) -> WorkerProgress {
        let mut counters: BTreeMap<String, u64> = BTreeMap::new();
        for member in &mut self.members {
            member.fresh = false;
            for (name, &value) in &member.progress.counters {
                let sum = counters.entry(name.clone()).or_default();
                match GAUGES.contains(&name.as_str()) {
                    // The busiest one decides whether the instrument is a limit.
                    true => *sum = value.max(*sum),
                    false => *sum += value,
                }
            }
        }
        let us = |percentile| self.second.percentile_ns(percentile).map(|ns| ns / 1000);
        let progress = WorkerProgress {
            unix_ns,
            counters,
            p50_us: us(50.0),
            p99_us: us(99.0),
        };
        self.second.clear();
        progress
    }

    /// The result of all together, once each has given its own.
    pub(super) fn summary(&self, wanted: usize) -> Option<DeliverySummary> {
        if self.members.len() < wanted {
            return None;
        }
        let mut merged = DeliverySummary::default();
        for member in &self.members {
            merged.merge(member.summary.as_ref()?);
        }
        Some(merged)
    }
}

/// Counters of which the largest counts, not the sum.
const GAUGES: [&str; 2] = ["busy_permille", "turn_max_us"];
