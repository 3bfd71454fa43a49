//! Process of a driver: commands go to its standard input, lines come from its standard output.
//!
//! The driver has its own process group: Ctrl-C on the terminal reaches only this program, and
//! killing the group includes the processes that the driver has started.

use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use procfs::process::Process;
use procfs::ticks_per_second;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use super::error::DriverFailure;
use super::lines::{Line, Lines};
use super::program::DriverProgram;

/// Reason why a read ended without a line.
#[derive(Debug)]
pub(super) enum ReadEnd {
    Closed,
    LineTooLong,
    Timeout,
    /// The driver wrote its response to standard error.
    WrongStream(Vec<u8>),
    Stopped,
}

/// Process of a driver; killed on drop with its process group.
#[derive(Debug)]
pub(super) struct DriverProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<Line>,
    stderr_tail: Arc<Mutex<Vec<u8>>>,
    log_thread: JoinHandle<()>,
    transcript: File,
    ended: Option<ExitStatus>,
}

impl DriverProcess {
    /// Starts the driver. Its standard error goes to `<name>.log`, the lines in both directions to
    /// `<name>.jsonl`.
    ///
    /// # Errors
    /// [`DriverFailure::NotStarted`] if a file, the process or a thread cannot be created.
    pub(super) fn start(program: &DriverProgram, dir: &Path) -> Result<Self, DriverFailure> {
        let failed = |what: &dyn std::fmt::Display, error: io::Error| {
            DriverFailure::NotStarted(format!("{what}: {error}"))
        };
        let file = |ending: &str| {
            let path = dir.join(format!("{}.{ending}", program.name));
            let opened = File::options().create(true).append(true).open(&path);
            opened.map_err(|error| failed(&path.display(), error))
        };
        let (log, transcript) = (file("log")?, file("jsonl")?);
        let spawned = program
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn();
        let mut child = spawned.map_err(|error| failed(&program.program().display(), error))?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let (sender, lines) = mpsc::sync_channel(LINES_QUEUED_MAX);
        let stderr_tail = Arc::new(Mutex::new(Vec::new()));
        let tail = Arc::clone(&stderr_tail);
        let reader = |name: &str| thread::Builder::new().name(name.to_owned());
        // Both are `Some`, because they are pipes.
        let started = reader("driver-lines")
            .spawn(move || {
                for line in stdout
                    .into_iter()
                    .flat_map(|it| Lines::new(it, LINE_BYTES_MAX))
                {
                    let is_last = matches!(line, Line::TooLong);
                    if sender.send(line).is_err() || is_last {
                        return;
                    }
                }
            })
            .and_then(|_| {
                let copy = move || stderr.into_iter().for_each(|it| copy_log(it, &log, &tail));
                reader("driver-log").spawn(copy)
            });
        Ok(Self {
            stdin: child.stdin.take(),
            child,
            lines,
            stderr_tail,
            log_thread: started.map_err(|error| failed(&"cannot start a thread", error))?,
            transcript,
            ended: None,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the user and system time of all threads so far, including ended ones, in
    /// microseconds. The resolution is one tick.
    pub(super) fn cpu_us(&self) -> Option<f64> {
        let process = Process::new(i32::try_from(self.pid()).ok()?).ok()?;
        let stat = process.stat().ok()?;
        Some((stat.utime + stat.stime) as f64 * 1e6 / ticks_per_second() as f64)
    }

    /// Writes a line. If the driver has exited, the next read reports it.
    pub(super) fn send(&mut self, mut line: Vec<u8>) {
        self.log_line(b"> ", &line);
        line.push(b'\n');
        let Some(stdin) = &mut self.stdin else { return };
        if let Err(error) = stdin.write_all(&line).and_then(|()| stdin.flush()) {
            tracing::debug!(%error, "failed to send command to driver");
        }
    }

    /// Returns the next line. Waits for it until the deadline or until `stop` is set.
    pub(super) fn line(
        &mut self,
        deadline: Instant,
        stop: &AtomicBool,
    ) -> Result<Vec<u8>, ReadEnd> {
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(ReadEnd::Stopped);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(STOP_POLL_INTERVAL)) {
                Ok(Line::Whole(line)) => {
                    self.log_line(b"< ", &line);
                    return Ok(line);
                }
                Ok(Line::TooLong) => return Err(ReadEnd::LineTooLong),
                Err(RecvTimeoutError::Disconnected) => return Err(ReadEnd::Closed),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(ReadEnd::Timeout),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Returns the response to command `id` if it is among the last lines of standard error.
    pub(super) fn response_on_stderr(&self, id: u64) -> Option<Vec<u8>> {
        let tail = self.stderr_tail.lock();
        let tail = tail.unwrap_or_else(PoisonError::into_inner);
        let mut lines = tail.split(|byte| *byte == b'\n');
        let found = lines.find(|line| {
            let object: Option<Value> = serde_json::from_slice(line).ok();
            object.is_some_and(|it| it["id"] == id && it["ok"].is_boolean())
        });
        found.map(<[u8]>::to_vec)
    }

    /// Returns the response to command `id` that a driver with closed standard output writes to
    /// standard error. Waits for it until the deadline while the driver runs.
    pub(super) fn redirected_response(
        &mut self,
        id: u64,
        deadline: Instant,
        stop: &AtomicBool,
    ) -> Option<Vec<u8>> {
        loop {
            let has_ended = self.wait(Duration::ZERO).is_some();
            let found = self.response_on_stderr(id);
            let is_over = has_ended || stop.load(Ordering::Relaxed) || Instant::now() >= deadline;
            if found.is_some() || is_over {
                return found;
            }
            thread::sleep(EXIT_POLL_INTERVAL);
        }
    }

    /// Returns a queued line that no command requested.
    pub(super) fn unexpected_line(&mut self) -> Option<Vec<u8>> {
        match self.lines.try_recv() {
            Ok(Line::Whole(line)) => Some(line),
            _ => None,
        }
    }

    /// Closes the driver's input and waits up to `grace` for its exit.
    pub(super) fn close(&mut self, grace: Duration) -> Option<ExitStatus> {
        drop(self.stdin.take());
        self.wait(grace)
    }

    /// Returns the exit status. Waits for the exit up to `timeout`.
    pub(super) fn wait(&mut self, timeout: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + timeout;
        loop {
            if self.ended.is_none() {
                self.ended = self.child.try_wait().ok().flatten();
                if self.ended.is_some() {
                    self.kill_group();
                }
            }
            if self.ended.is_some() || Instant::now() >= deadline {
                return self.ended;
            }
            thread::sleep(EXIT_POLL_INTERVAL);
        }
    }

    /// Kills the driver and all processes it has started.
    pub(super) fn kill(&mut self) {
        drop(self.stdin.take());
        if self.ended.is_none() {
            self.kill_group();
            self.ended = self.child.wait().ok();
        }
    }

    /// Kills the process group. Must be called once, at the latest directly after the leader was
    /// reaped, so that the group id cannot have been reused.
    fn kill_group(&self) {
        let group = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            // Fails only if the group has no processes.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// Returns the last lines of standard error, joined to one line.
    pub(super) fn stderr_tail(&mut self) -> String {
        let deadline = Instant::now() + LOG_TIMEOUT;
        // The log of a process that has ended is complete when its thread ends.
        while self.ended.is_some() && !self.log_thread.is_finished() && Instant::now() < deadline {
            thread::sleep(EXIT_POLL_INTERVAL);
        }
        let tail = self.stderr_tail.lock();
        let tail = tail.unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&tail);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let last = lines.len().saturating_sub(LAST_LINES);
        let last_lines = lines[last..].join(" | ");
        match last_lines.char_indices().rev().nth(LAST_CHARS) {
            None if last_lines.is_empty() => "none".to_owned(),
            None => last_lines,
            Some((at, _)) => format!("…{}", &last_lines[at..]),
        }
    }

    fn log_line(&mut self, direction: &[u8], line: &[u8]) {
        let line = &line[..line.len().min(TRANSCRIPT_LINE_BYTES)];
        let whole = [direction, line, b"\n"].concat();
        if let Err(error) = self.transcript.write_all(&whole) {
            tracing::debug!(%error, "failed to write transcript of a driver");
        }
    }
}

impl Drop for DriverProcess {
    fn drop(&mut self) {
        if self.wait(Duration::ZERO).is_none() {
            self.kill();
        }
    }
}

/// Returns a human-readable exit status; `None` stands for a running driver.
pub(super) fn describe_exit(status: Option<ExitStatus>) -> String {
    match status {
        None => "it closed its output and still runs".to_owned(),
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => status.to_string(),
        },
    }
}

/// Copies the start of standard error to a file, and stores its end in memory.
fn copy_log(mut stderr: impl Read, mut log: &File, tail: &Mutex<Vec<u8>>) {
    let mut file_space = LOG_BYTES_MAX;
    let mut buffer = [0; 4096];
    loop {
        let read = match stderr.read(&mut buffer) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let copied = read.min(file_space);
        file_space -= copied;
        // If writing to the disk fails, the tail is still available.
        let _ = log.write_all(&buffer[..copied]);
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&buffer[..read]);
        let excess = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..excess);
    }
}

/// Maximum length of a line. A response has at most two distributions of some ten thousand values.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// Size of the line queue; a driver sends one line per command or second.
const LINES_QUEUED_MAX: usize = 64;
/// Maximum bytes of a transcript line. Only responses with distributions are longer; these are in
/// the results of the run.
const TRANSCRIPT_LINE_BYTES: usize = 2 << 10;
/// Maximum size of a driver's log file; later output is only in the tail.
const LOG_BYTES_MAX: usize = 4 << 20;
/// Size of the end of standard error that is stored in memory.
const TAIL_BYTES: usize = 8 << 10;
/// Maximum lines and characters of standard error in an error message.
const LAST_LINES: usize = 3;
const LAST_CHARS: usize = 400;
/// Timeout for reading the rest of the log of a driver that has exited.
const LOG_TIMEOUT: Duration = Duration::from_millis(500);
/// Interval at which the stop flag is checked.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(100);
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);
