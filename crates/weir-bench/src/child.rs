//! A part of a run as a child process: a worker that speaks the protocol, or the gateway.
//!
//! Children get a process group of their own, so that Ctrl-C on the terminal reaches only the
//! runner, which ends them in order.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command as Process, ExitStatus, Stdio};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, setpriority_process};

use super::BenchError;
use weir_load::worker::protocol::{WorkerCommand, WorkerEvent};

/// What a child says, with the part it plays.
#[derive(Debug)]
pub(super) enum ChildEvent {
    /// An event of a worker.
    Event(ProcessRole, WorkerEvent),
    /// A line that is no event.
    Garbled(ProcessRole, String),
    /// The end of a worker's output.
    Closed(ProcessRole),
}

/// The part a process plays in a cell; also its name in the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum ProcessRole {
    Broker,
    Gateway,
    Floor,
    Proxy,
    Clients,
    Consume,
    Produce,
    /// The producer of the timed records beside one of background.
    ProduceMarked,
}

impl ProcessRole {
    /// All parts, in the order results list them.
    pub(super) const ALL: [Self; 7] = [
        Self::Broker,
        Self::Gateway,
        Self::Floor,
        Self::Clients,
        Self::Consume,
        Self::Produce,
        Self::ProduceMarked,
    ];
    /// Those that count their own bytes.
    pub(super) const COUNTING: [Self; 6] = [
        Self::Gateway,
        Self::Floor,
        Self::Clients,
        Self::Consume,
        Self::Produce,
        Self::ProduceMarked,
    ];

    /// Whether it writes records.
    pub(super) fn produces(self) -> bool {
        matches!(self, Self::Produce | Self::ProduceMarked)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Broker => "broker",
            Self::Gateway => "gateway",
            Self::Floor => "floor",
            Self::Proxy => "proxy",
            Self::Clients => "clients",
            Self::Consume => "consume",
            Self::Produce => "produce",
            Self::ProduceMarked => "produce_marked",
        }
    }
}

/// A running child; killed when dropped.
#[derive(Debug)]
pub(super) struct RoleProcess {
    pub(super) part: ProcessRole,
    child: Child,
    stdin: Option<ChildStdin>,
    log: PathBuf,
    guard: Option<ParentWatchdog>,
}

/// Ends a process that would not notice the end of this one: a shell that waits for its input to
/// close, which happens however this process ends.
#[derive(Debug)]
struct ParentWatchdog(Child);

impl ParentWatchdog {
    fn over(pid: u32) -> io::Result<Self> {
        Process::new("sh")
            .args(["-c", "cat >/dev/null; kill -TERM \"$0\"", &pid.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map(Self)
    }
}

impl Drop for ParentWatchdog {
    /// Before its input closes, so that it never sees that.
    fn drop(&mut self) {
        // Both fail only for a process that is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl RoleProcess {
    /// Starts a worker: its events go to `messages` and, as they come, to `<part>.jsonl` in `dir`;
    /// its log to `<part>.log`.
    pub(super) fn worker(
        exe: &Path,
        args: &[String],
        part: ProcessRole,
        dir: &Path,
        messages: SyncSender<ChildEvent>,
    ) -> Result<Self, BenchError> {
        let mut started = Self::spawn(exe, args, part, dir, true)?;
        // Invariant: the pipe was asked for.
        let stdout = started.child.stdout.take().ok_or(BenchError::NoPipe)?;
        let raw_path = dir.join(format!("{}.jsonl", part.name()));
        let raw = File::create(&raw_path).map_err(|error| BenchError::file(&raw_path, error))?;
        thread::spawn(move || read_events(part, stdout, raw, &messages));
        Ok(started)
    }

    /// Starts a process that speaks no protocol.
    pub(super) fn plain(
        exe: &Path,
        args: &[String],
        part: ProcessRole,
        dir: &Path,
    ) -> Result<Self, BenchError> {
        let mut started = Self::spawn(exe, args, part, dir, false)?;
        match ParentWatchdog::over(started.pid()) {
            Ok(guard) => started.guard = Some(guard),
            Err(error) => tracing::warn!(%error, "{} is not guarded", part.name()),
        }
        Ok(started)
    }

    fn spawn(
        exe: &Path,
        args: &[String],
        part: ProcessRole,
        dir: &Path,
        piped: bool,
    ) -> Result<Self, BenchError> {
        let log = dir.join(format!("{}.log", part.name()));
        let log_file = File::create(&log).map_err(|error| BenchError::file(&log, error))?;
        let pipe = || if piped { Stdio::piped() } else { Stdio::null() };
        let mut child = Process::new(exe)
            .args(args)
            .stdin(pipe())
            .stdout(pipe())
            .stderr(log_file)
            .process_group(0)
            .spawn()
            .map_err(|source| BenchError::Spawn {
                part: part.name(),
                source,
            })?;
        let stdin = child.stdin.take();
        Ok(Self {
            part,
            child,
            stdin,
            log,
            guard: None,
        })
    }

    /// Lets it run before all others where that is allowed; whether it was. Threads it starts later
    /// do the same, so this comes before its work does.
    pub(super) fn prefer(&self) -> bool {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        pid.is_some_and(|pid| setpriority_process(Some(pid), PREFERRED_NICE).is_ok())
    }

    /// Process id, for sampling.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends a command; a worker that is gone is noticed by the end of its output.
    pub(super) fn send(&mut self, command: &WorkerCommand) {
        let Some(stdin) = &mut self.stdin else { return };
        // Invariant: commands hold nothing that JSON can not express.
        let mut line = serde_json::to_vec(command).unwrap_or_default();
        line.push(b'\n');
        if let Err(error) = stdin.write_all(&line).and_then(|()| stdin.flush()) {
            tracing::debug!(part = self.part.name(), %error, "command not sent");
        }
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Why it may have ended: its last line of log.
    pub(super) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        last.unwrap_or("its log is empty").to_owned()
    }

    /// Ends it in order: a worker by the end of its commands, any other by SIGTERM. Killed if it
    /// takes longer than `grace`.
    pub(super) fn end(mut self, grace: Duration) {
        match self.stdin.take() {
            Some(stdin) => drop(stdin),
            None => self.terminate(),
        }
        let deadline = Instant::now() + grace;
        while Instant::now() < deadline {
            if self.ended().is_some() {
                return;
            }
            thread::sleep(LOOK);
        }
        tracing::warn!(part = self.part.name(), "did not end in time and is killed");
    }

    fn terminate(&self) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended meanwhile, which the wait that follows notices.
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

impl Drop for RoleProcess {
    fn drop(&mut self) {
        if self.ended().is_none() {
            // Both fail only for a process that is gone.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Hands events on until the output ends; each line is on disk before it is looked at.
fn read_events(
    part: ProcessRole,
    stdout: impl io::Read,
    mut raw: File,
    messages: &SyncSender<ChildEvent>,
) {
    for line in BufReader::new(stdout).split(b'\n') {
        let Ok(mut line) = line else { break };
        line.push(b'\n');
        if let Err(error) = raw.write_all(&line) {
            tracing::warn!(part = part.name(), %error, "raw event not written");
        }
        let message = match serde_json::from_slice(&line) {
            Ok(event) => ChildEvent::Event(part, event),
            Err(error) => ChildEvent::Garbled(part, error.to_string()),
        };
        if messages.send(message).is_err() {
            return;
        }
    }
    // A runner that is gone needs no word.
    let _ = messages.send(ChildEvent::Closed(part));
}

/// Of events that nobody has looked at yet. A full queue makes a worker wait; each says some lines a second.
pub(super) const MESSAGES_QUEUED_MAX: usize = 4096;
/// Of the producers, where permitted.
pub(super) const PREFERRED_NICE: i32 = -10;
const LOOK: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_guarded_ends_with_the_guards_input() {
        let mut guarded = Process::new("sleep").arg("600").spawn().unwrap();
        let mut guard = ParentWatchdog::over(guarded.id()).unwrap();
        // As if this process had ended.
        drop(guard.0.stdin.take());
        assert!(!guarded.wait().unwrap().success());
        assert!(guard.0.wait().unwrap().success());
    }

    #[test]
    fn a_guard_that_is_dropped_does_nothing() {
        let mut other = Process::new("sleep").arg("600").spawn().unwrap();
        drop(ParentWatchdog::over(other.id()).unwrap());
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
