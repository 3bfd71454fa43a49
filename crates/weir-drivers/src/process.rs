//! A running driver: commands go to its standard input, lines come from its standard output.
//!
//! It has a process group of its own, so that Ctrl-C on the terminal reaches only this program, and
//! so that whatever it has started is gone when it is killed.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::error::DriverFailure;
use super::program::DriverProgram;
use super::usage;

/// How a wait for a driver ends without a line of its.
#[derive(Debug)]
pub(super) enum ReadEnd {
    /// Its output has ended.
    Closed,
    /// The line is longer than any answer.
    Endless,
    /// The time is over.
    Timeout,
    /// The caller asked to stop.
    Stopped,
}

/// The process behind a driver; killed with its group when dropped.
#[derive(Debug)]
pub(super) struct DriverProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<io::Result<Vec<u8>>>,
    said: Arc<Mutex<Vec<u8>>>,
    listener: Option<JoinHandle<()>>,
    transcript: File,
    ended: Option<ExitStatus>,
}

impl DriverProcess {
    /// Starts it; its standard error goes to `<name>.log`, what is said both ways to `<name>.jsonl`.
    pub(super) fn start(program: &DriverProgram, folder: &Path) -> Result<Self, DriverFailure> {
        let failed = |error: io::Error| DriverFailure::NotStarted(error.to_string());
        let file = |ending: &str| {
            let path = folder.join(format!("{}.{ending}", program.name));
            let opened = File::options().create(true).append(true).open(&path);
            opened
                .map_err(|error| DriverFailure::NotStarted(format!("{}: {error}", path.display())))
        };
        let (log, transcript) = (file("log")?, file("jsonl")?);
        let mut child = program
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| {
                DriverFailure::NotStarted(format!("{}: {error}", program.program().display()))
            })?;
        let stdin = child.stdin.take();
        let (sender, lines) = mpsc::sync_channel(LINES_QUEUED_MAX);
        if let Some(stdout) = child.stdout.take() {
            let reader = thread::Builder::new().name("driver-lines".to_owned());
            reader
                .spawn(move || read_lines(stdout, &sender))
                .map_err(failed)?;
        }
        let said = Arc::new(Mutex::new(Vec::new()));
        let mut listener = None;
        if let Some(stderr) = child.stderr.take() {
            let tail = Arc::clone(&said);
            let reader = thread::Builder::new().name("driver-log".to_owned());
            let reader = reader.spawn(move || keep_log(stderr, log, &tail));
            listener = Some(reader.map_err(failed)?);
        }
        Ok(Self {
            child,
            stdin,
            lines,
            said,
            listener,
            transcript,
            ended: None,
        })
    }

    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Processor time of all its threads so far.
    pub(super) fn cpu_us(&self) -> Option<f64> {
        usage::cpu_us(self.pid())
    }

    /// Writes a line; a driver that is gone is noticed when its answer is waited for.
    pub(super) fn send(&mut self, mut line: Vec<u8>) {
        self.note(b"> ", &line);
        line.push(b'\n');
        let Some(stdin) = &mut self.stdin else { return };
        if let Err(error) = stdin.write_all(&line).and_then(|()| stdin.flush()) {
            tracing::debug!(%error, "command not sent to driver");
        }
    }

    /// Waits for a line.
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
            match self.lines.recv_timeout(left.min(STOP_LOOK)) {
                Ok(Ok(line)) => {
                    self.note(b"< ", &line);
                    return Ok(line);
                }
                Ok(Err(_)) => return Err(ReadEnd::Endless),
                Err(RecvTimeoutError::Disconnected) => return Err(ReadEnd::Closed),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Err(ReadEnd::Timeout),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Lines that came and were not asked for.
    pub(super) fn unasked(&mut self) -> Option<Vec<u8>> {
        self.lines.try_recv().ok()?.ok()
    }

    /// Closes its input and waits for its end; whether it came in time.
    pub(super) fn close(&mut self, grace: Duration) -> bool {
        drop(self.stdin.take());
        self.wait(grace).is_some()
    }

    /// How it ended, once it has, waiting at most so long.
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
            thread::sleep(LOOK);
        }
    }

    /// Ends it and all that it has started.
    pub(super) fn kill(&mut self) {
        drop(self.stdin.take());
        if self.ended.is_none() {
            self.kill_group();
            self.ended = self.child.wait().ok();
        }
    }

    /// Called once, when the leader of the group is not reaped or was just now.
    fn kill_group(&self) {
        let group = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        if let Some(group) = group {
            // Fails only when nobody of the group is left.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    /// The end of what it wrote to standard error, in one line.
    pub(super) fn last_words(&mut self) -> String {
        if self.ended.is_some() {
            if let Some(listener) = self.listener.take_if(|listener| {
                let deadline = Instant::now() + LAST_WORDS_WITHIN;
                while !listener.is_finished() && Instant::now() < deadline {
                    thread::sleep(LOOK);
                }
                listener.is_finished()
            }) {
                // It has no way to panic that matters here.
                let _ = listener.join();
            }
        }
        let said = self.said.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&said);
        let lines: Vec<&str> = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let last = lines.len().saturating_sub(LAST_LINES);
        let words = lines[last..].join(" | ");
        match words.char_indices().rev().nth(LAST_CHARS) {
            None if words.is_empty() => "nothing".to_owned(),
            None => words,
            Some((at, _)) => format!("…{}", &words[at..]),
        }
    }

    fn note(&mut self, direction: &[u8], line: &[u8]) {
        let line = &line[..line.len().min(TRANSCRIPT_LINE_BYTES)];
        let whole = [direction, line, b"\n"].concat();
        if let Err(error) = self.transcript.write_all(&whole) {
            tracing::debug!(%error, "transcript of a driver not written");
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

/// How a process ended, for people.
pub(super) fn ending(status: Option<ExitStatus>) -> String {
    match status {
        None => "it closed its output and goes on".to_owned(),
        Some(status) => match (status.code(), status.signal()) {
            (Some(code), _) => format!("exit code {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => status.to_string(),
        },
    }
}

/// Hands lines on until the output ends, or a line has no end.
fn read_lines(stdout: impl Read, lines: &SyncSender<io::Result<Vec<u8>>>) {
    let mut stdout = BufReader::new(stdout);
    loop {
        let mut line = Vec::new();
        let read = (&mut stdout)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        if !matches!(read, Ok(bytes) if bytes > 0) {
            return;
        }
        let next = match line.pop() {
            Some(b'\n') => Ok(line),
            _ if line.len() as u64 + 1 >= LINE_BYTES_MAX => {
                Err(io::Error::from(io::ErrorKind::InvalidData))
            }
            // Cut off by the end.
            _ => return,
        };
        let over = next.is_err();
        if lines.send(next).is_err() || over {
            return;
        }
    }
}

/// Keeps the beginning in a file and the end in memory.
fn keep_log(mut stderr: impl Read, mut log: File, tail: &Mutex<Vec<u8>>) {
    let mut room = LOG_BYTES_MAX;
    let mut piece = [0; 4096];
    loop {
        let read = match stderr.read(&mut piece) {
            Ok(0) => return,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => return,
        };
        let kept = read.min(room);
        room -= kept;
        // Without room on the disk the tail is still there.
        let _ = log.write_all(&piece[..kept]);
        let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
        tail.extend_from_slice(&piece[..read]);
        let over = tail.len().saturating_sub(TAIL_BYTES);
        tail.drain(..over);
    }
}

/// An answer has at most two distributions of some ten thousand values.
const LINE_BYTES_MAX: u64 = 4 << 20;
/// A driver says a line per command or second; more have to wait.
const LINES_QUEUED_MAX: usize = 64;
/// Of a line, in the transcript.
const TRANSCRIPT_LINE_BYTES: usize = 64 << 10;
/// Of a driver's standard error on disk; what follows is only in the tail.
const LOG_BYTES_MAX: usize = 4 << 20;
const TAIL_BYTES: usize = 8 << 10;
/// Of the tail, in errors.
const LAST_LINES: usize = 3;
const LAST_CHARS: usize = 400;
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(500);
/// How long Ctrl-C may go unnoticed.
const STOP_LOOK: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(5);
