//! Load workers: the lines they exchange with a coordinator, and how lines become messages.

pub mod protocol;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use protocol::{WorkerCommand, WorkerEvent, WorkerRole};

/// Commands waiting for a worker; a coordinator sends a handful in a run.
const COMMANDS_QUEUED_MAX: usize = 64;
/// Longest line accepted; a ledger of thousands of keys with failed records is some hundred kB.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// A worker's end of the line: commands come in, events go out.
#[derive(Debug)]
pub struct CoordinatorChannel {
    /// What the coordinator asks; closed after the end of its input.
    pub commands: Receiver<WorkerCommand>,
    /// Where the worker reports.
    pub events: EventSender,
}

impl CoordinatorChannel {
    /// Standard input and output, for a worker that is a child process.
    pub fn stdio() -> Self {
        Self::over(io::stdin(), io::stdout())
    }

    /// Any pair of streams. Reads on a thread of its own; the end of the input, a line that cannot
    /// be read and a command that cannot be understood all mean [`Command::Stop`], because a
    /// worker without its coordinator must not go on.
    pub fn over(input: impl Read + Send + 'static, output: impl Write + Send + 'static) -> Self {
        let (sender, commands) = mpsc::sync_channel(COMMANDS_QUEUED_MAX);
        let events = EventSender::new(output);
        let answer = events.clone();
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
                let message = format!("command not understood: {error}");
                answer.send(&WorkerEvent::Error { message });
            }
            // A worker that is already gone needs no stop.
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

/// Writes events, one line each, flushed; clones share the stream.
#[derive(Clone)]
pub struct EventSender {
    output: Arc<Mutex<dyn Write + Send>>,
}

impl EventSender {
    /// Writes to `output`.
    pub fn new(output: impl Write + Send + 'static) -> Self {
        Self {
            output: Arc::new(Mutex::new(output)),
        }
    }

    /// Sends one event. A coordinator that no longer listens is not an error here: its end of the
    /// command stream stops the worker.
    pub fn send(&self, event: &WorkerEvent) {
        let mut line = match serde_json::to_vec(event) {
            Ok(line) => line,
            Err(error) => {
                tracing::error!(%error, "event not sent");
                return;
            }
        };
        line.push(b'\n');
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = output.write_all(&line).and_then(|()| output.flush()) {
            tracing::debug!(%error, "event not sent");
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
