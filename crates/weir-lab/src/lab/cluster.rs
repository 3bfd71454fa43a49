//! A running lab, which is a local Kafka cluster: its state, and stopping it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::companions::Companions;
use crate::broker::Launch;
use crate::config::SecondListener;
use crate::disk;
use crate::error::{LabError, Result};
use crate::guarded::GuardedProcess;
use crate::state::{LabPhase, LabState};
use crate::status::{self, STOP_TIMEOUT};

/// One broker of a running lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broker {
    /// Node id, starting at 1.
    pub node_id: i32,
    /// Process id; 0 while the broker is stopped.
    pub pid: u32,
    /// Port for clients.
    pub port: u16,
}

/// A running local cluster. Unless detached, it is stopped when this value is dropped or the
/// process ends.
#[derive(Debug)]
pub struct Lab {
    pub(super) launch: Launch,
    pub(super) state: LabState,
    pub(super) ready_timeout: Duration,
    pub(super) second_listeners: Vec<SecondListener>,
    pub(super) keep_data: bool,
    pub(super) was_running: bool,
    /// Processes in the order of `state.nodes`; `None` while a broker is stopped.
    pub(super) processes: Vec<Option<GuardedProcess>>,
    pub(super) brokers: Vec<Broker>,
    /// Certificates, token endpoint and schema registry.
    pub(super) companions: Companions,
    /// `true` if the brokers were stopped by [`Lab::down`].
    pub(super) is_down: bool,
}

impl Lab {
    /// Returns the bootstrap servers for clients, `host:port` of all brokers separated by commas.
    pub fn bootstrap(&self) -> String {
        self.state.bootstrap()
    }

    /// Returns the brokers in the order of their node ids.
    pub fn brokers(&self) -> &[Broker] {
        &self.brokers
    }

    /// Returns the directory of the lab, with configuration, logs and data.
    pub fn dir(&self) -> &Path {
        &self.launch.dir
    }

    /// Returns the version of Apache Kafka that the brokers run.
    pub fn kafka_version(&self) -> &str {
        &self.state.kafka_version
    }

    /// Returns `true` if [`Lab::up`] attached to a running lab.
    pub fn was_running(&self) -> bool {
        self.was_running
    }

    /// Returns the number of client connections that every broker's limit of open files allows.
    pub fn max_clients_hint(&self) -> u64 {
        let running = self.brokers.iter().filter(|broker| broker.pid != 0);
        let limits = running.map(|broker| status::clients_max(broker.pid));
        limits.min().unwrap_or(0)
    }

    /// Returns `true` if all processes are running, except those that were stopped with this value.
    pub fn is_running(&mut self) -> bool {
        if self.companions.has_ended() {
            return false;
        }
        let mut processes = self.processes.iter_mut().flatten();
        processes.all(|process| process.exit_status().is_none())
    }

    /// Shuts down one broker gracefully and keeps its data. Does nothing if it is stopped.
    pub fn stop_broker(&mut self, node_id: i32) -> Result<()> {
        let index = self.index(node_id)?;
        if let Some(process) = &mut self.processes[index] {
            process.stop(&format!("broker {node_id}"), STOP_TIMEOUT)?;
        }
        self.processes[index] = None;
        self.update_process(index)
    }

    /// Shuts down all brokers gracefully and removes their data, unless `keep_data` is set.
    pub fn down(mut self) -> Result<()> {
        self.finish_within(STOP_TIMEOUT)
    }

    /// Stops a borrowed lab like [`Lab::down`]. The lab cannot be used afterwards.
    pub fn finish(&mut self) -> Result<()> {
        self.finish_within(STOP_TIMEOUT)
    }

    /// Returns `true` if another process stopped this lab, such as `weir lab down`.
    ///
    /// Waits while another process is stopping it.
    pub fn was_stopped_externally(&self) -> bool {
        let _lock = status::lock_when_free(&self.launch.dir);
        !self.is_in_state_file()
    }

    pub(super) fn finish_within(&mut self, timeout: Duration) -> Result<()> {
        if self.is_down {
            return Ok(());
        }
        self.is_down = true;
        self.stop_processes(timeout)?;
        let _lock = status::lock_when_free(&self.launch.dir);
        if self.is_in_state_file() {
            status::clear(&self.launch.dir, &mut self.state, self.keep_data)?;
        }
        if self.launch.dir_is_temporary {
            disk::remove(&self.launch.dir)?;
        }
        Ok(())
    }

    /// Returns `true` if `lab.json` still describes this lab.
    ///
    /// Another process may have stopped it and started another lab in the same directory.
    fn is_in_state_file(&self) -> bool {
        let state = LabState::load(&self.launch.dir).ok().flatten();
        state.is_some_and(|state| {
            state.cluster_id == self.state.cluster_id && state.phase == LabPhase::Running
        })
    }

    pub(super) fn stop_processes(&mut self, timeout: Duration) -> Result<()> {
        let running = self.state.nodes.iter().zip(&mut self.processes);
        let running = running.filter_map(|(node, it)| Some((node.name(), it.as_mut()?)));
        status::stop_all(running, timeout)?;
        self.processes.fill_with(|| None);
        self.companions.stop(timeout)
    }

    pub(super) fn index(&self, node_id: i32) -> Result<usize> {
        let found = self.brokers.iter().position(|it| it.node_id == node_id);
        found.ok_or(LabError::NoSuchBroker(node_id))
    }

    /// Updates the list of brokers and `lab.json` with the process of one broker.
    pub(super) fn update_process(&mut self, index: usize) -> Result<()> {
        let identity = self.processes[index].as_ref().map(|it| it.identity);
        self.brokers[index].pid = identity.map_or(0, |identity| identity.pid);
        self.state.nodes[index].process = identity;
        self.state.save(&self.launch.dir)
    }

    /// Updates `lab.json` with the processes of the token endpoint and the schema registry.
    pub(super) fn save_servers(&mut self) -> Result<()> {
        (self.state.tokens, self.state.registry) = self.companions.states();
        self.state.save(&self.launch.dir)
    }

    /// Ends the watchdogs that stop the lab, so that it outlives this process.
    pub(super) fn release(&mut self) {
        let running = self.processes.iter_mut().flatten();
        running.for_each(GuardedProcess::release);
        self.companions.release();
    }

    pub(super) fn set_phase(&mut self, phase: LabPhase) -> Result<()> {
        self.state.phase = phase;
        self.state.save(&self.launch.dir)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.state.detached {
            return;
        }
        // A graceful shutdown is only needed if the data is kept.
        let timeout = match self.keep_data {
            true => STOP_TIMEOUT,
            false => SHORT_STOP_TIMEOUT,
        };
        if let Err(error) = self.finish_within(timeout) {
            tracing::error!(%error, "lab shutdown failed");
        }
    }
}

/// Timeout of a shutdown after which the data is removed.
const SHORT_STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Creates a directory, readable by this user only, for a lab that is not detached.
pub(super) fn temporary_dir() -> Result<PathBuf> {
    let prefix = format!("weir-lab-{}-", std::process::id());
    let dir = tempfile::Builder::new().prefix(&prefix).tempdir();
    // The lab or its watchdog removes it.
    dir.map(tempfile::TempDir::keep)
        .map_err(|error| LabError::Directory(std::env::temp_dir(), error))
}
