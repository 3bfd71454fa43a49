//! Channel between load workers and their coordinator, one JSON line per message.

pub mod protocol;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use protocol::{WorkerCommand, WorkerEvent, WorkerRole};

/// Size of the command queue; a coordinator sends a handful of commands per run.
const COMMANDS_QUEUED_MAX: usize = 64;
/// Maximum length of a line; a ledger of thousands of keys with failed records has some hundred kB.
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
            let end = loop {
                match read_command(&mut input) {
                    Ok(Some(command)) => {
                        if sender.send(command).is_err() {
                            return;
                        }
                    }
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
            };
            if let Some(error) = end {
                let message = format!("invalid command: {error}");
                error_events.send(&WorkerEvent::Error { message });
            }
            // The worker may have ended.
            let _ = sender.send(WorkerCommand::Stop);
        });
        Self { commands, events }
    }
}

fn read_command(input: &mut impl BufRead) -> io::Result<Option<WorkerCommand>> {
    let mut line = String::new();
    loop {
        line.clear();
        if input.take(LINE_BYTES_MAX).read_line(&mut line)? == 0 {
            return Ok(None);
        }
        if !line.trim().is_empty() {
            return Ok(Some(serde_json::from_str(&line)?));
        }
    }
}

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
        let mut line = match serde_json::to_vec(event) {
            Ok(line) => line,
            Err(error) => {
                tracing::error!(%error, "failed to serialize event");
                return;
            }
        };
        line.push(b'\n');
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
}

impl std::fmt::Debug for EventSender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EventSender").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
