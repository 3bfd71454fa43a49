//! Child processes of a run: workers, which speak the worker protocol, and plain processes such as
//! the gateway.
//!
//! Each child has its own process group. Ctrl-C on the terminal therefore reaches only this
//! process, which shuts the children down.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command as Process, ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, setpriority_process};

use super::BenchError;
use crate::experiment::names::names;
use weir_engine::inventory::InventoryRole;
use weir_engine::machines::{ConnectedMachine, RoleInput, RoleSession, StartedSession};
use weir_engine::session::{EVENT_PREFIX, RoleProcessRequest, SessionEvent};
use weir_load::child_environment::without_weir_variables;
use weir_load::sampler::RoleSample;
use weir_load::worker::protocol::{WorkerCommand, WorkerEvent};

#[derive(Debug)]
pub(super) enum ChildEvent {
    Event(RoleInstance, WorkerEvent),
    /// Sample of a process on another machine.
    Sample(RoleInstance, RoleSample),
    /// Ready file of a server on another machine.
    ReadyFile(String),
    InvalidLine(RoleInstance, String),
    Closed(RoleInstance),
}

/// Role of a process in a cell; also its name in the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ProcessRole {
    Broker,
    Gateway,
    Floor,
    Proxy,
    Clients,
    Consume,
    Produce,
    /// Producer of the timed records when there is background load.
    ProduceMarked,
    /// Performance tool of Apache Kafka.
    KafkaTool,
}

names!(pub(super) ProcessRole, "role": Proxy = "proxy", Broker = "broker", Gateway = "gateway",
    Floor = "floor", Clients = "clients", Consume = "consume", Produce = "produce",
    ProduceMarked = "produce_marked", KafkaTool = "kafka-tool");

impl ProcessRole {
    /// Returns the role in inventories.
    pub(super) fn in_inventory(self) -> InventoryRole {
        match self {
            Self::Broker => InventoryRole::Brokers,
            Self::Gateway | Self::Floor => InventoryRole::Gateway,
            Self::Proxy => InventoryRole::Proxy,
            Self::Clients => InventoryRole::Clients,
            Self::Consume => InventoryRole::Consumers,
            Self::Produce | Self::ProduceMarked | Self::KafkaTool => InventoryRole::Producers,
        }
    }

    pub(super) fn produces(self) -> bool {
        matches!(self, Self::Produce | Self::ProduceMarked)
    }

    /// Returns `true` if response times are differences between its timestamps and those of others.
    pub(super) fn takes_timestamps(self) -> bool {
        self.produces() || matches!(self, Self::Clients | Self::Consume)
    }
}

/// Process of a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RoleInstance {
    pub(super) role: ProcessRole,
    /// Index among the processes of the role, from 0.
    pub(super) index: usize,
}

impl RoleInstance {
    /// Returns the name of its files, without extension.
    pub(super) fn file_stem(self) -> String {
        let name = self.role.name();
        match self.index {
            0 => name.to_owned(),
            index => format!("{name}-{}", index + 1),
        }
    }
}

/// Returns the first process of a role, usually the only one.
impl From<ProcessRole> for RoleInstance {
    fn from(role: ProcessRole) -> Self {
        Self { role, index: 0 }
    }
}

/// Running child process; killed when dropped.
#[derive(Debug)]
pub(super) struct RoleProcess {
    pub(super) role: ProcessRole,
    /// Index among the processes of the role.
    index: usize,
    handle: ProcessHandle,
    stdin: Option<Box<dyn RoleInput>>,
    log: PathBuf,
    watchdog: Option<OwnedChild>,
}

#[derive(Debug)]
enum ProcessHandle {
    Here(OwnedChild),
    /// On another machine.
    Remote(RoleSession),
}

/// Child process; killed when dropped.
#[derive(Debug)]
pub(super) struct OwnedChild(pub(super) Child);

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // Both calls fail only if the process has exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a shell that ends the process `pid`, which would not notice the end of this process. The
/// shell waits until its input closes, which happens however this process ends. A dropped shell is
/// killed before its input closes, so that it does not end the process.
fn watch_parent(pid: u32) -> io::Result<OwnedChild> {
    Process::new("sh")
        .args(["-c", "cat >/dev/null; kill -TERM \"$0\"", &pid.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map(OwnedChild)
}

impl RoleProcess {
    /// Starts a worker. Its events go to `messages` and are written to `<role>.jsonl` in `dir` as
    /// they arrive; its log is `<role>.log`.
    pub(super) fn worker(
        exe: &Path,
        args: &[String],
        role: ProcessRole,
        dir: &Path,
        messages: SyncSender<ChildEvent>,
    ) -> Result<Self, BenchError> {
        let mut command = Process::new(exe);
        without_weir_variables(&mut command).args(args);
        let (started, output) = Self::spawn(command, role, dir, true)?;
        // Invariant: `spawn` requested the pipe.
        started.read(output.ok_or(BenchError::NoPipe)?, dir, messages)
    }

    /// Starts a worker on another machine, as [`worker`](Self::worker) does on this one, or a
    /// server with a ready file.
    pub(super) fn remote(
        machine: &ConnectedMachine,
        request: RoleProcessRequest,
        instance: RoleInstance,
        dir: &Path,
        messages: SyncSender<ChildEvent>,
    ) -> Result<Self, BenchError> {
        let RoleInstance { role, index } = instance;
        let (log, log_file) = create_log(instance, dir)?;
        let StartedSession {
            input,
            output,
            session,
        } = machine.start(request, log_file).map_err(|error| {
            let text = format!("on {}: {error}", machine.name);
            BenchError::Spawn(role.name(), io::Error::new(error.kind(), text))
        })?;
        let started = Self {
            role,
            index,
            handle: ProcessHandle::Remote(session),
            stdin: Some(input),
            log,
            watchdog: None,
        };
        started.read(output, dir, messages)
    }

    /// Reads the events of a worker in a thread.
    fn read(
        self,
        output: impl io::Read + Send + 'static,
        dir: &Path,
        messages: SyncSender<ChildEvent>,
    ) -> Result<Self, BenchError> {
        let instance = self.instance();
        let raw_path = dir.join(format!("{}.jsonl", instance.file_stem()));
        let raw = File::create(&raw_path).map_err(|error| BenchError::file(&raw_path, error))?;
        thread::spawn(move || read_events(instance, output, raw, &messages));
        Ok(self)
    }

    /// Returns its role and its index among the processes of the role.
    pub(super) fn instance(&self) -> RoleInstance {
        let (role, index) = (self.role, self.index);
        RoleInstance { role, index }
    }

    /// Starts a process that does not speak the worker protocol.
    pub(super) fn plain(
        exe: &Path,
        args: &[String],
        role: ProcessRole,
        dir: &Path,
    ) -> Result<Self, BenchError> {
        let mut command = Process::new(exe);
        without_weir_variables(&mut command).args(args);
        let (mut started, _) = Self::spawn(command, role, dir, false)?;
        match started.pid().map(watch_parent).transpose() {
            Ok(watchdog) => started.watchdog = watchdog,
            Err(error) => {
                tracing::warn!(role = role.name(), %error, "starting the watchdog failed");
            }
        }
        Ok(started)
    }

    fn spawn(
        mut command: Process,
        role: ProcessRole,
        dir: &Path,
        piped: bool,
    ) -> Result<(Self, Option<ChildStdout>), BenchError> {
        let (log, log_file) = create_log(role.into(), dir)?;
        let pipe = || if piped { Stdio::piped() } else { Stdio::null() };
        let mut child = command
            .stdin(pipe())
            .stdout(pipe())
            .stderr(log_file)
            .process_group(0)
            .spawn()
            .map_err(|source| BenchError::Spawn(role.name(), source))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let started = Self {
            role,
            index: 0,
            handle: ProcessHandle::Here(OwnedChild(child)),
            stdin: stdin.map(|it| Box::new(it) as Box<dyn RoleInput>),
            log,
            watchdog: None,
        };
        Ok((started, stdout))
    }

    /// Raises the scheduling priority of the process. Returns `true` if that was permitted. Threads
    /// inherit the priority, so call this before the process starts its work.
    ///
    /// A process on another machine does not share its processors with the system under test.
    pub(super) fn raise_priority(&self) -> bool {
        let Some(pid) = self.raw_pid() else {
            return true;
        };
        setpriority_process(Some(pid), PREFERRED_NICE).is_ok()
    }

    /// Returns the process id; `None` on another machine.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.handle {
            ProcessHandle::Here(child) => Some(child.0.id()),
            ProcessHandle::Remote(_) => None,
        }
    }

    /// Sends a command. If the worker has exited, the end of its output reports that.
    pub(super) fn send(&mut self, command: &WorkerCommand) {
        let Some(stdin) = &mut self.stdin else { return };
        // Invariant: every command can be serialized as JSON.
        let mut line = serde_json::to_vec(command).unwrap_or_default();
        line.push(b'\n');
        if let Err(error) = stdin.write_all(&line).and_then(|()| stdin.flush()) {
            tracing::debug!(role = self.role.name(), %error, "sending a command failed");
        }
    }

    pub(super) fn exit_status(&mut self) -> Option<ExitStatus> {
        match &mut self.handle {
            ProcessHandle::Here(child) => child.0.try_wait().ok().flatten(),
            ProcessHandle::Remote(session) => session.exit_status(),
        }
    }

    /// Returns the last line of its log, which usually contains the reason for its exit.
    pub(super) fn log_tail(&self) -> String {
        log_tail(&self.log)
    }

    /// Shuts the process down: a worker and any process on another machine by closing its input,
    /// others by SIGTERM. Kills it after `grace`.
    pub(super) fn end(mut self, grace: Duration) {
        match (self.stdin.take(), self.raw_pid()) {
            (None, Some(pid)) => {
                // The process may already have exited; the following wait notices that.
                let _ = kill_process(pid, Signal::TERM);
            }
            (stdin, _) => drop(stdin),
        }
        let deadline = Instant::now() + grace;
        while Instant::now() < deadline {
            if self.exit_status().is_some() {
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
        tracing::warn!(
            role = self.role.name(),
            "process did not exit in time, killed"
        );
    }

    fn raw_pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.pid()?).ok()?)
    }
}

/// Returns the last line of a log, which usually contains the reason for the exit of its process.
pub(super) fn log_tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    last.unwrap_or("its log is empty").to_owned()
}

/// Creates the file for the log of a process.
fn create_log(instance: RoleInstance, dir: &Path) -> Result<(PathBuf, File), BenchError> {
    let log = dir.join(format!("{}.log", instance.file_stem()));
    let file = File::create(&log).map_err(|error| BenchError::file(&log, error))?;
    Ok((log, file))
}

/// Forwards events until the output ends. Writes each line to disk before parsing it.
fn read_events(
    instance: RoleInstance,
    stdout: impl io::Read,
    mut raw: File,
    messages: &SyncSender<ChildEvent>,
) {
    for line in BufReader::new(stdout).split(b'\n') {
        let Ok(mut line) = line else { break };
        line.push(b'\n');
        if let Err(error) = raw.write_all(&line) {
            tracing::warn!(role = instance.role.name(), %error, "writing a raw event failed");
        }
        let message = match parse(instance, &line) {
            Ok(Some(message)) => message,
            Ok(None) => continue,
            Err(error) => ChildEvent::InvalidLine(instance, error.to_string()),
        };
        if messages.send(message).is_err() {
            return;
        }
    }
    // Fails only if the receiver has been dropped.
    let _ = messages.send(ChildEvent::Closed(instance));
}

/// Parses a line of a worker, or of the session of a worker on another machine.
fn parse(instance: RoleInstance, line: &[u8]) -> serde_json::Result<Option<ChildEvent>> {
    if !line.starts_with(EVENT_PREFIX) {
        return serde_json::from_slice(line).map(|event| Some(ChildEvent::Event(instance, event)));
    }
    Ok(match serde_json::from_slice(line)? {
        SessionEvent::Usage(sample) => Some(ChildEvent::Sample(instance, sample)),
        SessionEvent::ReadyFile { content } => Some(ChildEvent::ReadyFile(content)),
        SessionEvent::Hello { .. } => None,
    })
}

/// Maximum number of queued events. A full queue blocks the workers, which send a few lines per
/// second.
pub(super) const MESSAGES_QUEUED_MAX: usize = 4096;
/// Nice value of the producers, where permitted.
pub(super) const PREFERRED_NICE: i32 = -10;
const POLL_INTERVAL: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_input_ends_watched_process() {
        let mut watched = Process::new("sleep").arg("600").spawn().unwrap();
        let mut watchdog = watch_parent(watched.id()).unwrap();
        // Simulates the end of this process.
        drop(watchdog.0.stdin.take());
        assert!(!watched.wait().unwrap().success());
        assert!(watchdog.0.wait().unwrap().success());
    }

    #[test]
    fn dropped_watchdog_leaves_process_running() {
        let mut other = Process::new("sleep").arg("600").spawn().unwrap();
        drop(watch_parent(other.id()).unwrap());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
