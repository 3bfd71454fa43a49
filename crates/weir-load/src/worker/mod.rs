//! Channel between load workers and their coordinator, one JSON line per message.

pub mod protocol;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_stats::Histogram;

use crate::error::ErrorClass;
use protocol::{Schedule, Summary, WorkerCommand, WorkerEvent, WorkerProgress, WorkerRole};

/// Size of the command queue; a coordinator sends a handful of commands per run.
const COMMANDS_QUEUED_MAX: usize = 64;
/// Maximum length of a line. A ledger or summary of thousands of keys or clients has some 600 kB,
/// options with 65,536 keys of 500 characters 33 MB.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// Worker's side of the channel: commands in, events out.
#[derive(Debug)]
pub struct CoordinatorChannel {
    /// Commands of the coordinator; closed after the end of its input.
    pub commands: Receiver<WorkerCommand>,
    /// Sender of the worker's events.
    pub events: EventSender,
}

impl CoordinatorChannel {
    /// Uses standard input and output, for a worker that is a child process.
    pub fn stdio() -> Self {
        Self::over(io::stdin(), io::stdout())
    }

    /// Uses any pair of streams and reads in its own thread. End of input, a read error or an
    /// invalid command result in [`WorkerCommand::Stop`], because a worker without its coordinator
    /// must not continue.
    pub fn over(input: impl Read + Send + 'static, output: impl Write + Send + 'static) -> Self {
        let (sender, commands) = mpsc::sync_channel(COMMANDS_QUEUED_MAX);
        let events = EventSender::new(output);
        let error_events = events.clone();
        thread::spawn(move || {
            let mut input = BufReader::new(input);
            loop {
                match read_message(&mut input) {
                    Ok(Some(command)) => {
                        if sender.send(command).is_err() {
                            return;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => {
                        error_events.error(format!("invalid command: {error}"), None);
                        break;
                    }
                }
            }
            // The worker may have ended.
            let _ = sender.send(WorkerCommand::Stop);
        });
        Self { commands, events }
    }

    /// Passes pending commands to `handle`. Returns `true` if the worker has to stop, also after
    /// the end of the coordinator.
    pub fn take_commands(&self, mut handle: impl FnMut(WorkerCommand)) -> bool {
        loop {
            match self.commands.try_recv() {
                Ok(WorkerCommand::Stop) | Err(TryRecvError::Disconnected) => return true,
                Ok(command) => handle(command),
                Err(TryRecvError::Empty) => return false,
            }
        }
    }

    /// Waits for the start command; `None` if the run is stopped instead.
    pub(crate) fn wait_for_start(&self) -> Option<Schedule> {
        loop {
            match self.commands.recv().unwrap_or(WorkerCommand::Stop) {
                WorkerCommand::Start(schedule) => return Some(schedule),
                WorkerCommand::Ledger { .. } => {}
                WorkerCommand::Stop => return None,
            }
        }
    }
}

/// Reads the message of the next line that is not blank; `None` at the end of the stream.
///
/// # Errors
/// The stream cannot be read, or the line is no such message.
pub fn read_message<T: DeserializeOwned>(input: &mut impl BufRead) -> io::Result<Option<T>> {
    let mut line = String::new();
    while line.trim().is_empty() {
        line.clear();
        if input.take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(None);
        }
    }
    Ok(Some(serde_json::from_str(&line)?))
}

/// Returns a message as a line of JSON.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    // Invariant: messages have no values that JSON cannot represent.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Running totals by name.
pub type Counters<'a> = &'a [(&'a str, u64)];

/// Sender of events, one line each, flushed; clones share the stream.
#[derive(Clone)]
pub struct EventSender {
    output: Arc<Mutex<dyn Write + Send>>,
}

impl EventSender {
    /// Creates a sender that writes to `output`.
    pub fn new(output: impl Write + Send + 'static) -> Self {
        Self {
            output: Arc::new(Mutex::new(output)),
        }
    }

    /// Sends one event. Write errors are only logged: if the coordinator ended, the end of the
    /// command stream stops the worker.
    pub fn send(&self, event: &WorkerEvent) {
        let line = line(event);
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = output.write_all(&line).and_then(|()| output.flush()) {
            tracing::debug!(%error, "failed to send event");
        }
    }

    /// Sends the first event of a worker.
    pub fn hello(&self, role: WorkerRole) {
        self.send(&WorkerEvent::Hello {
            role,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        });
    }

    /// Reports the open connections, and the port of a server.
    pub fn ready(&self, connections: usize, port: Option<u16>) {
        let connections = connections as u64;
        self.send(&WorkerEvent::Ready { connections, port });
    }

    /// Sends the counters with the percentiles of the last second, and clears these. Sends all
    /// values of the second if `is_share`.
    pub fn progress(
        &self,
        unix_ns: u64,
        counters: Counters<'_>,
        second: Option<&mut Histogram>,
        is_share: bool,
    ) {
        let us = |percentile| Some(second.as_ref()?.percentile_ns(percentile)? / 1000);
        let counters = counters.iter().map(|(name, n)| ((*name).to_owned(), *n));
        let values = second.as_ref().filter(|it| is_share && !it.is_empty());
        self.send(&WorkerEvent::Progress(WorkerProgress {
            unix_ns,
            counters: counters.collect(),
            p50_us: us(50.0),
            p99_us: us(99.0),
            second: values.map(|it| it.to_base64()),
        }));
        if let Some(second) = second {
            second.clear();
        }
    }

    /// Sends the last event of a worker that ended as intended.
    pub fn finish(&self, summary: Summary) {
        self.send(&WorkerEvent::Final { summary });
    }

    /// Sends the last event of a worker that failed.
    pub fn error(&self, message: String, fault: Option<ErrorClass>) {
        self.send(&WorkerEvent::Error { message, fault });
    }
}

impl std::fmt::Debug for EventSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventSender").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
