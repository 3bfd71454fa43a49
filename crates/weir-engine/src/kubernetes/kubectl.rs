//! Execution of a run in a Kubernetes cluster with the installed `kubectl`, so that the user's
//! `kubectl` configuration and credentials apply.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use super::{CONTAINER, KubernetesRun};
use crate::archive::{ArchiveReader, is_archive_line};

/// Error of a run in a cluster.
#[derive(Debug, Error)]
pub enum KubernetesError {
    /// `kubectl` cannot be started.
    #[error("cannot start kubectl: {0}; install it, or use --print and apply the output")]
    Start(io::Error),
    /// A command of `kubectl` failed, with its last line.
    #[error("kubectl {0} failed: {1}")]
    Failed(&'static str, String),
    /// The results cannot be stored.
    #[error("cannot store the results: {0}")]
    Results(io::Error),
    /// The coordinator ended without results, with the last line of its log.
    #[error("the coordinator ended without results: {0}")]
    NoResults(String),
    /// The user interrupted the run.
    #[error("interrupted; the objects of the run were deleted")]
    Interrupted,
}

/// Results of a run.
#[derive(Debug)]
pub struct KubernetesResult {
    /// Directory of the run.
    pub dir: PathBuf,
    /// Exit code of the coordinator; `None`: Kubernetes did not report it.
    pub exit_code: Option<u8>,
}

/// Objects of a run in the cluster. Dropping it deletes them.
struct CreatedObjects<'a>(&'a KubernetesRun);

impl KubernetesRun {
    /// Creates the objects, follows the log of the coordinator, and writes the results that the log
    /// contains to a directory below `out`. Deletes the objects, even after an error. Calls `note`
    /// with the other lines of the log. Setting `stop` to `true` ends the run.
    ///
    /// # Errors
    /// [`KubernetesError`] if the run has no results.
    pub fn execute(
        &self,
        out: &Path,
        note: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<KubernetesResult, KubernetesError> {
        // Before `create`, which may fail after it has created some objects.
        let created = CreatedObjects(self);
        self.create()?;
        note("created the objects of the run; waiting for the coordinator's pod");
        let mut results = LoggedResults {
            reader: ArchiveReader::new(out),
            dir: None,
            has_log: false,
            last_line: String::new(),
        };
        let start = Instant::now();
        let mut ended_logs = 0;
        loop {
            self.follow(&mut results, note, stop)?;
            if results.dir.is_some() {
                break;
            }
            // The log is incomplete, or the pod has not started: read the log from its start.
            ended_logs += u32::from(self.exit_code()?.is_some());
            let limit = match results.has_log {
                true => self.deadline,
                false => POD_START_TIMEOUT.min(self.deadline),
            };
            if ended_logs == LOG_ATTEMPTS_MAX || start.elapsed() >= limit {
                return Err(KubernetesError::NoResults(results.last_line));
            }
            sleep(RETRY_INTERVAL, stop);
        }
        let exit_code = self.wait_for_exit_code(stop)?;
        drop(created);
        let dir = results.dir.unwrap_or_default();
        Ok(KubernetesResult { dir, exit_code })
    }

    fn create(&self) -> Result<(), KubernetesError> {
        let mut command = self.kubectl(&["create", "-f", "-"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(KubernetesError::Start)?;
        if let Some(mut input) = child.stdin.take() {
            // Fails if `kubectl` has ended; then its output has the reason.
            let _ = input.write_all(self.manifests().as_bytes());
        }
        let output = child.wait_with_output().map_err(KubernetesError::Start)?;
        succeeded("create", &output)
    }

    /// Reads the log of the coordinator until it ends.
    fn follow(
        &self,
        results: &mut LoggedResults,
        note: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<(), KubernetesError> {
        let job = format!("job/{}", self.coordinator_job());
        let mut command = self.kubectl(&["logs", "--follow", "--container", CONTAINER]);
        command.arg(job);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map(OwnedChild)
            .map_err(KubernetesError::Start)?;
        let (sender, lines) = mpsc::sync_channel(LINES_QUEUED_MAX);
        if let Some(output) = child.0.stdout.take() {
            forward(output, sender.clone(), LogLine::Coordinator);
        }
        if let Some(errors) = child.0.stderr.take() {
            forward(errors, sender.clone(), LogLine::Kubectl);
        }
        drop(sender);
        results.read(&lines, note, stop)
    }

    /// Returns the exit code of the coordinator's container; `None`: the container runs, or the
    /// exit code is not known.
    fn exit_code(&self) -> Result<Option<u8>, KubernetesError> {
        let selector = format!("job-name={}", self.coordinator_job());
        let path = "jsonpath={.items[*].status.containerStatuses[*].state.terminated.exitCode}";
        let mut command = self.kubectl(&["get", "pods", "--selector", &selector, "-o", path]);
        let output = command.output().map_err(KubernetesError::Start)?;
        succeeded("get pods", &output)?;
        Ok(String::from_utf8_lossy(&output.stdout).trim().parse().ok())
    }

    /// Waits up to [`EXIT_CODE_TIMEOUT`] for the exit code of the coordinator's container.
    fn wait_for_exit_code(&self, stop: &AtomicBool) -> Result<Option<u8>, KubernetesError> {
        let deadline = Instant::now() + EXIT_CODE_TIMEOUT;
        loop {
            let code = self.exit_code()?;
            let is_stopped = stop.load(Ordering::Relaxed);
            if code.is_some() || is_stopped || Instant::now() >= deadline {
                return Ok(code);
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns a `kubectl` command in its own process group, so that Ctrl-C reaches only this
    /// process.
    fn kubectl(&self, args: &[&str]) -> Command {
        let mut command = Command::new("kubectl");
        if let Some(namespace) = &self.namespace {
            command.args(["--namespace", namespace]);
        }
        command.args(args).process_group(0);
        command
    }
}

impl Drop for CreatedObjects<'_> {
    fn drop(&mut self) {
        let selector = self.0.selector();
        let kinds = "jobs,services,secrets";
        let mut command = self.0.kubectl(&["delete", kinds, "--selector", &selector]);
        // With this option, the command returns only after the pods have ended.
        command.args(["--cascade=foreground", "--timeout", DELETE_TIMEOUT]);
        let deleted = command.stdin(Stdio::null()).output();
        let deleted = deleted.map_err(KubernetesError::Start);
        if let Err(error) = deleted.and_then(|output| succeeded("delete", &output)) {
            tracing::warn!(%error, selector, "deleting the objects of the run failed");
        }
    }
}

/// Line of output of `kubectl logs`.
enum LogLine {
    /// Line of the coordinator's log.
    Coordinator(String),
    /// Error message of `kubectl` itself.
    Kubectl(String),
}

/// Starts a thread that sends the lines of a stream until it ends, each wrapped by `line_of`.
fn forward(
    stream: impl io::Read + Send + 'static,
    sender: SyncSender<LogLine>,
    line_of: fn(String) -> LogLine,
) {
    thread::spawn(move || {
        for line in BufReader::new(stream).lines() {
            let Ok(line) = line else { return };
            if sender.send(line_of(line)).is_err() {
                return;
            }
        }
    });
}

/// Waits for `time`, or until the user interrupts the run.
fn sleep(time: Duration, stop: &AtomicBool) {
    let deadline = Instant::now() + time;
    while Instant::now() < deadline && !stop.load(Ordering::Relaxed) {
        thread::sleep(POLL_INTERVAL);
    }
}

/// Results that the coordinator writes to its log, as archive lines.
struct LoggedResults {
    reader: ArchiveReader,
    /// Directory of the results; `None` until they are complete.
    dir: Option<PathBuf>,
    /// `true` if the coordinator has started.
    has_log: bool,
    /// Last line or error, for an error message.
    last_line: String,
}

impl LoggedResults {
    /// Processes lines until the sender is dropped.
    fn read(
        &mut self,
        lines: &Receiver<LogLine>,
        note: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<(), KubernetesError> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(KubernetesError::Interrupted);
            }
            let line = match lines.recv_timeout(POLL_INTERVAL) {
                Ok(LogLine::Coordinator(line)) => {
                    self.has_log = true;
                    line
                }
                // `kubectl` repeats the same error while the pod starts.
                Ok(LogLine::Kubectl(line)) if line == self.last_line => continue,
                Ok(LogLine::Kubectl(line)) => line,
                Err(RecvTimeoutError::Timeout) => continue,
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            };
            if !is_archive_line(&line) {
                if !line.trim().is_empty() {
                    note(&line);
                    self.last_line = line;
                }
                continue;
            }
            match self.reader.line(&line) {
                Ok(None) => {}
                Ok(Some(dir)) => self.dir = Some(dir),
                // The log is incomplete.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.last_line = error.to_string();
                }
                Err(error) => return Err(KubernetesError::Results(error)),
            }
        }
    }
}

/// Child process. Dropping it kills the process.
struct OwnedChild(Child);

impl Drop for OwnedChild {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns an error if the command `what` failed, with the last line that it wrote to stderr.
fn succeeded(what: &'static str, output: &Output) -> Result<(), KubernetesError> {
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let last = text.lines().rev().find(|line| !line.trim().is_empty());
    let last = last.map_or_else(|| output.status.to_string(), str::to_owned);
    Err(KubernetesError::Failed(what, last))
}

/// Maximum time for a node to pull the image and start the coordinator.
const POD_START_TIMEOUT: Duration = Duration::from_secs(600);
const DELETE_TIMEOUT: &str = "120s";
const EXIT_CODE_TIMEOUT: Duration = Duration::from_secs(60);
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Size of the queue of log lines.
const LINES_QUEUED_MAX: usize = 256;
/// Number of attempts to read the log of a coordinator that has ended.
const LOG_ATTEMPTS_MAX: u32 = 3;
const RETRY_INTERVAL: Duration = Duration::from_secs(2);
