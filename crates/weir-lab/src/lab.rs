//! A lab as a value: started, asked, its brokers stopped and started again, and stopped.

mod existing;
mod options;
mod start;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

pub use options::{LabOptions, SecondListener};

use crate::broker::{BrokerProcess, Launch};
use crate::disk;
use crate::error::LabError;
use crate::state::{LabPhase, LabState};
use crate::status::{self, GRACE};

/// One broker of a running lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broker {
    /// Node id, counted from 1.
    pub node_id: i32,
    /// Its process; 0 while it is stopped.
    pub pid: u32,
    /// Port for clients.
    pub port: u16,
}

/// A cluster that answers. Unless detached, it ends with this value or with this process.
#[derive(Debug)]
pub struct Lab {
    launch: Launch,
    state: LabState,
    ready_within: Duration,
    second_listeners: Vec<SecondListener>,
    keep_data: bool,
    was_running: bool,
    /// Beside `state.nodes`; `None` while a broker is stopped.
    processes: Vec<Option<BrokerProcess>>,
    brokers: Vec<Broker>,
    /// Whether the brokers were stopped by [`Lab::down`].
    is_down: bool,
}

impl Lab {
    /// Starts a lab and returns when all its brokers answer, or finds the one that already runs in
    /// the directory with the same settings.
    ///
    /// `progress` gets a line whenever something that takes time begins. When `stop` becomes true,
    /// everything started so far is stopped. Nothing is left running after an error.
    ///
    /// # Errors
    /// See [`LabError`]; [`LabError::fault`] says whose fault it is.
    pub fn up(
        options: &LabOptions,
        progress: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<Self, LabError> {
        start::up(options, progress, stop)
    }

    /// `host:port` of every broker, with commas: what clients call `bootstrap.servers`.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.state.bootstrap()
    }

    /// The brokers in order of their node ids.
    #[must_use]
    pub fn brokers(&self) -> &[Broker] {
        &self.brokers
    }

    /// The lab's directory: configuration, logs, data.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.launch.dir
    }

    /// The release of Apache Kafka that runs.
    #[must_use]
    pub fn kafka_version(&self) -> &str {
        &self.state.kafka_version
    }

    /// Whether [`Lab::up`] found it running rather than started it.
    #[must_use]
    pub fn was_running(&self) -> bool {
        self.was_running
    }

    /// How many client connections each broker can hold, by its limit of open files.
    #[must_use]
    pub fn max_clients_hint(&self) -> u64 {
        let running = self.brokers.iter().filter(|broker| broker.pid != 0);
        let limits = running.map(|broker| status::clients_max(broker.pid));
        limits.min().unwrap_or(0)
    }

    /// Whether every broker that was not stopped on purpose still runs.
    pub fn is_running(&mut self) -> bool {
        let mut processes = self.processes.iter_mut().flatten();
        processes.all(|process| process.ended().is_none())
    }

    /// Stops one broker in order and keeps its data; a stopped one stays stopped.
    ///
    /// # Errors
    /// When there is no such broker or it cannot be ended.
    pub fn stop_broker(&mut self, node_id: i32) -> Result<(), LabError> {
        let index = self.index(node_id)?;
        if let Some(process) = &mut self.processes[index] {
            status::stop_all([(node_id, process)].into_iter(), GRACE)?;
        }
        self.processes[index] = None;
        self.note_process(index)
    }

    /// Starts a stopped broker again, on its port and data, and returns when it answers.
    ///
    /// # Errors
    /// When there is no such broker or it does not come up.
    pub fn start_broker(&mut self, node_id: i32, stop: &AtomicBool) -> Result<(), LabError> {
        let index = self.index(node_id)?;
        if self.processes[index].is_some() {
            return Ok(());
        }
        self.processes[index] = Some(self.launch.spawn(node_id)?);
        self.note_process(index)?;
        let ready = start::wait_ready(self, &mut |_| (), stop);
        if ready.is_err() {
            self.stop_broker(node_id)?;
        } else if self.state.detached {
            self.processes
                .iter_mut()
                .flatten()
                .for_each(BrokerProcess::release);
        }
        ready
    }

    /// Stops all brokers in order and removes their data, unless it is to be kept.
    ///
    /// # Errors
    /// When a broker cannot be ended or a file not removed.
    pub fn down(mut self) -> Result<(), LabError> {
        self.finish_within(GRACE)
    }

    /// The same as [`Lab::down`] for a lab that is only borrowed; nothing can be done with it
    /// afterwards.
    ///
    /// # Errors
    /// As [`Lab::down`].
    pub fn finish(&mut self) -> Result<(), LabError> {
        self.finish_within(GRACE)
    }

    /// Whether another process stopped this lab by its directory (`weir lab down`). Waits for that
    /// process if it is just about it.
    #[must_use]
    pub fn was_stopped_externally(&self) -> bool {
        let _lock = status::lock_when_free(&self.launch.dir);
        !self.is_still_ours()
    }

    fn finish_within(&mut self, grace: Duration) -> Result<(), LabError> {
        if self.is_down {
            return Ok(());
        }
        self.is_down = true;
        self.stop_processes(grace)?;
        let _lock = status::lock_when_free(&self.launch.dir);
        if self.is_still_ours() {
            status::clear(&self.launch.dir, &mut self.state, self.keep_data)?;
        }
        if self.launch.dir_is_temporary {
            disk::remove(&self.launch.dir)?;
        }
        Ok(())
    }

    /// Whether `lab.json` still speaks of this lab: somebody else may have stopped it and even
    /// started another one in the same directory.
    fn is_still_ours(&self) -> bool {
        let state = LabState::load(&self.launch.dir).ok().flatten();
        state.is_some_and(|state| {
            state.cluster_id == self.state.cluster_id && state.phase == LabPhase::Running
        })
    }

    fn stop_processes(&mut self, grace: Duration) -> Result<(), LabError> {
        let ids = self.state.nodes.iter().map(|node| node.node_id);
        let processes = self.processes.iter_mut();
        let running = ids
            .zip(processes)
            .filter_map(|(id, p)| Some((id, p.as_mut()?)));
        status::stop_all(running, grace)?;
        self.processes
            .iter_mut()
            .for_each(|process| *process = None);
        Ok(())
    }

    fn index(&self, node_id: i32) -> Result<usize, LabError> {
        self.brokers
            .iter()
            .position(|broker| broker.node_id == node_id)
            .ok_or(LabError::NoSuchBroker { node_id })
    }

    /// Brings the list of brokers and `lab.json` up to date with one process.
    fn note_process(&mut self, index: usize) -> Result<(), LabError> {
        let identity = self.processes[index]
            .as_ref()
            .map(|process| process.identity);
        self.brokers[index].pid = identity.map_or(0, |identity| identity.pid);
        self.state.nodes[index].process = identity;
        self.state.save(&self.launch.dir)
    }

    fn set_phase(&mut self, phase: LabPhase) -> Result<(), LabError> {
        self.state.phase = phase;
        self.state.save(&self.launch.dir)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.state.detached {
            return;
        }
        // Data that nobody will read again is not worth an orderly stop.
        let grace = if self.keep_data { GRACE } else { HURRY };
        if let Err(error) = self.finish_within(grace) {
            tracing::error!(%error, "lab not stopped");
        }
    }
}

const HURRY: Duration = Duration::from_secs(2);

/// A new directory for a lab that ends with its value.
fn temporary_dir() -> Result<PathBuf, LabError> {
    use std::os::unix::fs::DirBuilderExt;
    let base = std::env::temp_dir();
    for attempt in 0..1000 {
        let dir = base.join(format!("weir-lab-{}-{attempt}", std::process::id()));
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Ok(()) => return Ok(dir),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(LabError::Directory { dir, error }),
        }
    }
    Err(LabError::NotALab { dir: base })
}
