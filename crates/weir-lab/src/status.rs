//! Status and stop of a lab by its directory, from another process.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;

use crate::cache;
use crate::diagnose;
use crate::disk;
use crate::error::{LabError, Result};
use crate::guarded::GuardedProcess;
use crate::process::{self, Signal};
use crate::ready;
use crate::registry;
use crate::security::LabSecurity;
use crate::state::{self, LabPhase, LabState, ServiceState};
use crate::tokens;

/// Status of the lab in a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct LabStatus {
    /// Directory of the lab.
    pub dir: PathBuf,
    /// State of the lab.
    ///
    /// `none`, `starting`, `running`, `incomplete` (some or all brokers are not running or do not
    /// respond), `stopped` (data kept) or `failed` (did not start, logs kept).
    pub state: &'static str,
    /// Release of Apache Kafka, empty if there is no lab.
    pub kafka_version: String,
    /// Bootstrap servers, `host:port` separated by commas.
    pub bootstrap: String,
    /// Start time in milliseconds since 1970; 0 if the lab is not running.
    pub started_unix_ms: u64,
    /// Seconds since the start.
    pub uptime_seconds: u64,
    /// Maximum heap of each broker in MB.
    pub heap_mb: u32,
    /// Client connections that the file descriptor limit of each broker allows; 0 if none is
    /// running.
    pub clients_max: u64,
    /// Free space on the disk of the directory.
    pub disk_free_bytes: u64,
    /// Status of the brokers.
    pub brokers: Vec<BrokerStatus>,
    /// How clients connect.
    pub security: LabSecurity,
    /// File with the settings of clients.
    pub client_config: PathBuf,
    /// URL of the token endpoint; `null` if the lab has none.
    pub token_endpoint: Option<String>,
    /// URL of the schema registry; `null` if the lab has none.
    pub registry_url: Option<String>,
    /// Status of token endpoint and schema registry.
    pub servers: Vec<ServerStatus>,
}

/// Status of a server next to the brokers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServerStatus {
    /// Name of the server.
    pub name: &'static str,
    /// Process id, if the server is running.
    pub pid: Option<u32>,
    /// Port without TLS.
    pub port: u16,
    /// Port with TLS; the server may not use it.
    pub tls_port: u16,
    /// `true` if the server accepts connections.
    pub ready: bool,
}

/// Status of one broker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BrokerStatus {
    /// Node id.
    pub node_id: i32,
    /// Process id, if the broker is running.
    pub pid: Option<u32>,
    /// Port for clients.
    pub port: u16,
    /// Port for the other controllers.
    pub controller_port: u16,
    /// `true` if the broker responds and lists all brokers of the lab.
    pub ready: bool,
    /// Reason why the broker is not ready, from its log; empty if it is ready.
    pub problem: String,
    /// Directory of the logs.
    pub logs: PathBuf,
}

impl LabStatus {
    /// Returns `true` if all brokers are running and ready.
    pub fn is_running(&self) -> bool {
        self.state == "running"
    }
}

/// Returns the status of the lab in `dir` (`None`: the per-user lab).
pub fn status(dir: Option<&Path>) -> Result<LabStatus> {
    let dir = lab_dir(dir)?;
    let Some(state) = LabState::load(&dir)? else {
        return Ok(LabStatus {
            state: "none",
            disk_free_bytes: disk::free_bytes(&dir).unwrap_or(0),
            dir,
            ..LabStatus::default()
        });
    };
    let nodes = state.nodes.iter();
    let brokers: Vec<_> = nodes
        .map(|node| broker_status(&dir, &state, node))
        .collect();
    let servers = state.servers();
    let servers: Vec<_> = servers
        .map(|(name, server)| server_status(&state, name, server))
        .collect();
    let all_ready = brokers.iter().all(|it| it.ready) && servers.iter().all(|it| it.ready);
    let name = match state.phase {
        LabPhase::Starting => "starting",
        LabPhase::Running if all_ready => "running",
        LabPhase::Running => "incomplete",
        LabPhase::Stopped => "stopped",
        LabPhase::Failed => "failed",
    };
    let is_up = matches!(state.phase, LabPhase::Starting | LabPhase::Running);
    let started_unix_ms = if is_up { state.started_unix_ms } else { 0 };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let uptime = now.saturating_sub(Duration::from_millis(started_unix_ms));
    let pids = brokers.iter().filter_map(|broker| broker.pid);
    Ok(LabStatus {
        state: name,
        bootstrap: state.bootstrap(),
        security: state.security,
        client_config: state::client_config(&dir),
        token_endpoint: state.tokens.map(|it| tokens::endpoint(state.host, it)),
        registry_url: state.registry.map(|it| registry::url(state.host, &it)),
        servers,
        clients_max: pids.map(clients_max).min().unwrap_or(0),
        disk_free_bytes: disk::free_bytes(&dir).unwrap_or(0),
        kafka_version: state.kafka_version,
        started_unix_ms,
        uptime_seconds: if is_up { uptime.as_secs() } else { 0 },
        heap_mb: state.heap_mb,
        brokers,
        dir,
    })
}

fn broker_status(dir: &Path, state: &LabState, node: &state::LabNode) -> BrokerStatus {
    let process = state.running(node);
    let (host, port) = node.probe_address(state.host);
    let listed = process.and_then(|_| ready::listed_brokers(host, port).ok());
    let ready = listed.is_some_and(|listed| listed.len() == state.nodes.len());
    let problem = match (state.phase, process) {
        (LabPhase::Running | LabPhase::Starting, Some(_)) if !ready => {
            "does not respond".to_owned()
        }
        (LabPhase::Running, None) => {
            format!("exited: {}", diagnose::exit_reason(dir, node.node_id))
        }
        _ => String::new(),
    };
    BrokerStatus {
        node_id: node.node_id,
        pid: process.map(|process| process.pid),
        port: node.port,
        controller_port: node.controller_port,
        ready,
        problem,
        logs: state::log_dir(dir, node.node_id),
    }
}

fn server_status(state: &LabState, name: &'static str, server: ServiceState) -> ServerStatus {
    let process = state.alive(server.process);
    let accepts = || ready::accepts_connections(state.host, server.port);
    ServerStatus {
        name,
        pid: process.map(|process| process.pid),
        port: server.port,
        tls_port: server.tls_port,
        ready: process.is_some() && accepts(),
    }
}

/// Result of [`down`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DownReport {
    /// Directory of the lab.
    pub dir: PathBuf,
    /// Node ids of the stopped brokers.
    pub stopped: Vec<i32>,
    /// `true` if there was a lab, running or not.
    pub found: bool,
    /// `true` if the data of the lab was removed.
    pub data_removed: bool,
}

/// Stops the lab in `dir` (`None`: the per-user lab). Removes its data unless `keep_data` is set.
pub fn down(
    dir: Option<&Path>,
    keep_data: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<DownReport> {
    let dir = lab_dir(dir)?;
    let mut report = DownReport {
        dir: dir.clone(),
        ..DownReport::default()
    };
    if LabState::load(&dir)?.is_none() {
        return Ok(report);
    }
    let _lock = lock(&dir)?;
    // Load again with the lock: a command that was starting the lab may have ended in between.
    let Some(mut state) = LabState::load(&dir)? else {
        return Ok(report);
    };
    let nodes = state.nodes.iter();
    let alive = nodes.filter(|node| state.running(node).is_some());
    report.stopped = alive.map(|node| node.node_id).collect();
    let mut running = running(&state);
    if !running.is_empty() {
        progress(&format!("stopping {} broker(s)", report.stopped.len()));
    }
    let processes = running.iter_mut();
    stop_all(
        processes.map(|(name, process)| (name.clone(), process)),
        STOP_TIMEOUT,
    )?;
    report.found = true;
    let keep_data = keep_data && !matches!(state.phase, LabPhase::Starting | LabPhase::Failed);
    clear(&dir, &mut state, keep_data)?;
    report.data_removed = !keep_data;
    Ok(report)
}

/// Returns the running processes of a lab, brokers and other servers, with their names.
pub(crate) fn running(state: &LabState) -> Vec<(String, GuardedProcess)> {
    let nodes = state.nodes.iter().map(|node| (node.name(), node.process));
    let servers = state.servers();
    let servers = servers.map(|(name, server)| (name.to_owned(), server.process));
    let all = nodes.chain(servers);
    all.filter_map(|(name, process)| Some((name, GuardedProcess::found(state.alive(process)?))))
        .collect()
}

/// Stops all `processes` at the same time; those that run after `timeout` are killed.
pub(crate) fn stop_all<'a>(
    processes: impl Iterator<Item = (String, &'a mut GuardedProcess)>,
    timeout: Duration,
) -> Result<()> {
    let processes: Vec<_> = processes.collect();
    for (_, process) in &processes {
        process.identity.signal(Signal::TERM);
    }
    let deadline = Instant::now() + timeout;
    let mut still_running = None;
    for (name, process) in processes {
        if !process.wait_or_kill(deadline) {
            let pid = process.identity.pid;
            still_running = still_running.or(Some(LabError::StillRunning(name, pid)));
        }
    }
    still_running.map_or(Ok(()), Err)
}

/// Cleans the directory of a stopped lab: keeps data and state, or removes all files of the lab.
pub(crate) fn clear(dir: &Path, state: &mut LabState, keep_data: bool) -> Result<()> {
    state.forget_processes();
    if keep_data {
        state.phase = LabPhase::Stopped;
        return state.save(dir);
    }
    remove_data(dir, state)?;
    for file in ["lab.json", "lab.json.new"] {
        disk::remove(&dir.join(file))?;
    }
    remove_if_unused(dir)
}

/// Removes all files of a lab except its state.
pub(crate) fn remove_data(dir: &Path, state: &LabState) -> Result<()> {
    for node in &state.nodes {
        disk::remove(&state::node_dir(dir, node.node_id))?;
    }
    disk::remove(&state::security_dir(dir))?;
    disk::remove(&state::tokens_dir(dir))?;
    disk::remove(&state::registry_dir(dir))?;
    disk::remove(&state::client_config(dir))
}

/// Removes the directory if it contains no lab and no other files.
pub(crate) fn remove_if_unused(dir: &Path) -> Result<()> {
    if LabState::load(dir)?.is_none() {
        disk::remove(&dir.join(LOCK_FILE))?;
        // Fails if the directory contains other files, which must stay.
        let _ = std::fs::remove_dir(dir);
    }
    Ok(())
}

/// Locks the lab in `dir` for changes; waits for another command that is stopping the lab.
///
/// Returns `None` if the directory does not exist.
pub(crate) fn lock_when_free(dir: &Path) -> Option<std::fs::File> {
    let deadline = Instant::now() + 2 * STOP_TIMEOUT;
    while dir.is_dir() && Instant::now() < deadline {
        if let Ok(lock) = lock(dir) {
            return Some(lock);
        }
        std::thread::sleep(process::POLL_INTERVAL);
    }
    None
}

/// Locks the lab in `dir` for changes. Fails if another command has the lock.
pub(crate) fn lock(dir: &Path) -> Result<std::fs::File> {
    let lock = cache::try_lock(&dir.join(LOCK_FILE))?;
    lock.ok_or_else(|| LabError::Busy(dir.to_owned()))
}

/// Returns the per-user directory of a lab that outlives its command.
pub fn default_dir() -> Result<PathBuf> {
    Ok(disk::state_dir()?.join("lab"))
}

/// Returns `dir` as an absolute path, or the per-user lab directory.
pub(crate) fn lab_dir(dir: Option<&Path>) -> Result<PathBuf> {
    let Some(dir) = dir else { return default_dir() };
    std::path::absolute(dir).map_err(|error| LabError::Directory(dir.to_owned(), error))
}

/// Returns the number of client connections that the file descriptor limit of a broker allows.
pub(crate) fn clients_max(pid: u32) -> u64 {
    let files = process::open_files_max(pid).unwrap_or(0);
    files.saturating_sub(OWN_DESCRIPTORS)
}

/// Timeout of a graceful shutdown; a single broker takes about a second.
pub(crate) const STOP_TIMEOUT: Duration = Duration::from_secs(20);
/// File descriptors of a broker for jars, other brokers, and the files of some hundred partitions.
const OWN_DESCRIPTORS: u64 = 600;
pub(crate) const LOCK_FILE: &str = "lab.lock";
