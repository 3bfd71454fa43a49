//! A lab looked at and stopped from outside: by its directory.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::broker::BrokerProcess;
use crate::cache;
use crate::diagnose;
use crate::disk;
use crate::error::LabError;
use crate::process;
use crate::ready;
use crate::state::{self, LabPhase, LabState};

/// What is known of the lab in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LabStatus {
    /// Its directory.
    pub dir: PathBuf,
    /// `none`, `starting`, `running`, `incomplete` (some or all brokers are gone or do not
    /// answer), `stopped` (data kept) or `failed` (did not start, logs kept).
    pub state: &'static str,
    /// Release of Apache Kafka, empty when there is no lab.
    pub kafka_version: String,
    /// `host:port` of every broker, with commas.
    pub bootstrap: String,
    /// When it was started; 0 when it does not run.
    pub started_unix_ms: u64,
    /// Seconds since then.
    pub uptime_seconds: u64,
    /// Largest heap of each broker.
    pub heap_mb: u32,
    /// Client connections that the descriptor limit of each broker allows; 0 when none runs.
    pub clients_max: u64,
    /// Room on its disk.
    pub disk_free_bytes: u64,
    /// Its brokers.
    pub brokers: Vec<BrokerStatus>,
}

/// What is known of one broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokerStatus {
    /// Node id.
    pub node_id: i32,
    /// Its process, if it runs.
    pub pid: Option<u32>,
    /// Port for clients.
    pub port: u16,
    /// Port for the other controllers.
    pub controller_port: u16,
    /// Whether it answers and knows all brokers of the lab.
    pub answers: bool,
    /// Why it is not there, as far as its log tells; empty when it is.
    pub trouble: String,
    /// Directory of its logs.
    pub logs: PathBuf,
}

impl LabStatus {
    /// Whether every broker runs and answers.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.state == "running"
    }
}

/// Looks at the lab in `dir` (`None`: the per-user one).
///
/// # Errors
/// When its state file cannot be read.
pub fn status(dir: Option<&Path>) -> Result<LabStatus, LabError> {
    let dir = lab_dir(dir)?;
    let Some(state) = LabState::load(&dir)? else {
        return Ok(LabStatus::none(dir));
    };
    let brokers: Vec<_> = state
        .nodes
        .iter()
        .map(|node| broker_status(&dir, &state, node))
        .collect();
    let all_answer = brokers.iter().all(|broker| broker.answers);
    let name = match state.phase {
        LabPhase::Starting => "starting",
        LabPhase::Running if all_answer => "running",
        LabPhase::Running => "incomplete",
        LabPhase::Stopped => "stopped",
        LabPhase::Failed => "failed",
    };
    let lives = matches!(state.phase, LabPhase::Starting | LabPhase::Running);
    let started_unix_ms = if lives { state.started_unix_ms } else { 0 };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or(Duration::ZERO);
    let uptime = now.saturating_sub(Duration::from_millis(started_unix_ms));
    let pids = brokers.iter().filter_map(|broker| broker.pid);
    Ok(LabStatus {
        state: name,
        bootstrap: state.bootstrap(),
        clients_max: pids.map(clients_max).min().unwrap_or(0),
        disk_free_bytes: disk::free_bytes(&dir).unwrap_or(0),
        kafka_version: state.kafka_version,
        started_unix_ms,
        uptime_seconds: if lives { uptime.as_secs() } else { 0 },
        heap_mb: state.heap_mb,
        brokers,
        dir,
    })
}

impl LabStatus {
    fn none(dir: PathBuf) -> Self {
        Self {
            disk_free_bytes: disk::free_bytes(&dir).unwrap_or(0),
            dir,
            state: "none",
            kafka_version: String::new(),
            bootstrap: String::new(),
            started_unix_ms: 0,
            uptime_seconds: 0,
            heap_mb: 0,
            clients_max: 0,
            brokers: Vec::new(),
        }
    }
}

fn broker_status(dir: &Path, state: &LabState, node: &state::LabNode) -> BrokerStatus {
    let process = state.running(node);
    let listed = process.and_then(|_| ready::listed_brokers(state.host, node.port).ok());
    let answers = listed.is_some_and(|listed| listed.len() == state.nodes.len());
    let trouble = match (state.phase, process) {
        (LabPhase::Running | LabPhase::Starting, Some(_)) if !answers => {
            "does not answer".to_owned()
        }
        (LabPhase::Running, None) if diagnose::disk_was_full(dir, node.node_id) => {
            "ended: the disk was full".to_owned()
        }
        (LabPhase::Running, None) => {
            let (words, _) = diagnose::last_words(dir, node.node_id);
            format!("ended: {words}")
        }
        _ => String::new(),
    };
    BrokerStatus {
        node_id: node.node_id,
        pid: process.map(|process| process.pid),
        port: node.port,
        controller_port: node.controller_port,
        answers,
        trouble,
        logs: state::log_dir(dir, node.node_id),
    }
}

/// What [`down`] did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DownReport {
    /// The lab's directory.
    pub dir: PathBuf,
    /// Brokers that ran and were stopped.
    pub stopped: Vec<i32>,
    /// Whether there was a lab, running or not.
    pub was_there: bool,
    /// Whether its data is still there.
    pub data_kept: bool,
}

/// Stops the lab in `dir` (`None`: the per-user one) and removes its data unless `keep_data`.
///
/// # Errors
/// When another command works on the lab, or a broker cannot be ended.
pub fn down(
    dir: Option<&Path>,
    keep_data: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<DownReport, LabError> {
    let dir = lab_dir(dir)?;
    let mut report = DownReport {
        dir: dir.clone(),
        stopped: Vec::new(),
        was_there: false,
        data_kept: false,
    };
    if LabState::load(&dir)?.is_none() {
        return Ok(report);
    }
    let _lock = lock(&dir)?;
    // Again, under the lock: a command that was starting it may have ended in between.
    let Some(mut state) = LabState::load(&dir)? else {
        return Ok(report);
    };
    let mut running: Vec<_> = state
        .nodes
        .iter()
        .filter_map(|node| Some((node.node_id, BrokerProcess::found(state.running(node)?))))
        .collect();
    if !running.is_empty() {
        progress(&format!("stopping {} broker(s)", running.len()));
    }
    stop_all(
        running.iter_mut().map(|(id, process)| (*id, process)),
        GRACE,
    )?;
    report.stopped = running.iter().map(|(id, _)| *id).collect();
    report.was_there = true;
    report.data_kept = keep_data && !matches!(state.phase, LabPhase::Starting | LabPhase::Failed);
    clear(&dir, &mut state, report.data_kept)?;
    Ok(report)
}

/// Ends all `brokers` together; those that have not ended after `grace` are killed.
pub(crate) fn stop_all<'a>(
    brokers: impl Iterator<Item = (i32, &'a mut BrokerProcess)>,
    grace: Duration,
) -> Result<(), LabError> {
    let brokers: Vec<_> = brokers.collect();
    for (_, process) in &brokers {
        process.terminate();
    }
    let deadline = Instant::now() + grace;
    let mut left = None;
    for (node_id, process) in brokers {
        if !process.wait_or_kill(deadline) {
            left = left.or(Some(LabError::StillRunning {
                node_id,
                pid: process.identity.pid,
            }));
        }
    }
    left.map_or(Ok(()), Err)
}

/// Leaves a stopped lab's directory as it should be: with data and state, or with nothing of ours.
pub(crate) fn clear(dir: &Path, state: &mut LabState, keep_data: bool) -> Result<(), LabError> {
    for node in &mut state.nodes {
        node.process = None;
    }
    if keep_data {
        state.phase = LabPhase::Stopped;
        return state.save(dir);
    }
    for node in &state.nodes {
        disk::remove(&state::node_dir(dir, node.node_id))?;
    }
    for file in ["lab.json", "lab.json.new"] {
        disk::remove(&dir.join(file))?;
    }
    remove_if_unused(dir)
}

/// Removes the directory of a lab that is not there (any more), but nothing of somebody else.
pub(crate) fn remove_if_unused(dir: &Path) -> Result<(), LabError> {
    if LabState::load(dir)?.is_none() {
        disk::remove(&dir.join(LOCK_FILE))?;
        // Stays when there is something else in it.
        let _ = std::fs::remove_dir(dir);
    }
    Ok(())
}

/// The lock that a command holds while it changes the lab in `dir`; waits for another command
/// that is just stopping the lab. `None` when the directory is gone.
pub(crate) fn lock_when_free(dir: &Path) -> Option<std::fs::File> {
    let deadline = Instant::now() + 2 * GRACE;
    while dir.is_dir() && Instant::now() < deadline {
        if let Ok(lock) = lock(dir) {
            return Some(lock);
        }
        std::thread::sleep(process::POLL);
    }
    None
}

/// The lock that a command holds while it changes the lab in `dir`.
pub(crate) fn lock(dir: &Path) -> Result<std::fs::File, LabError> {
    cache::try_lock(&dir.join(LOCK_FILE))?.ok_or_else(|| LabError::Busy {
        dir: dir.to_owned(),
    })
}

/// The per-user directory of a lab that outlives its command.
///
/// # Errors
/// When neither `XDG_STATE_HOME` nor `HOME` says where that is.
pub fn default_dir() -> Result<PathBuf, LabError> {
    Ok(disk::state_dir()?.join("lab"))
}

/// `dir`, or the per-user lab directory.
pub(crate) fn lab_dir(dir: Option<&Path>) -> Result<PathBuf, LabError> {
    match dir {
        Some(dir) => std::path::absolute(dir).map_err(|error| LabError::Directory {
            dir: dir.to_owned(),
            error,
        }),
        None => default_dir(),
    }
}

/// Connections that a broker's descriptor limit leaves after its own files.
pub(crate) fn clients_max(pid: u32) -> u64 {
    process::open_files_max(pid)
        .unwrap_or(0)
        .saturating_sub(OWN_DESCRIPTORS)
}

/// Time for an orderly stop; a broker alone takes about a second.
pub(crate) const GRACE: Duration = Duration::from_secs(20);
/// Jars, sockets among brokers, and the files of some hundred partitions.
const OWN_DESCRIPTORS: u64 = 600;
/// Held by the command that changes a lab.
pub(crate) const LOCK_FILE: &str = "lab.lock";
