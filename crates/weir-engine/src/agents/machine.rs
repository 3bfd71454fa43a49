//! Coordinator's side of an agent: sessions on the agent's machine, and detection of a lost agent.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::channel::Channel;
use super::frames::{Frame, FrameKind};

/// Machine of an agent that has joined. Dropping it ends the sessions on the machine.
#[derive(Debug)]
pub(crate) struct AgentMachine {
    link: Arc<AgentLink>,
    threads: Vec<JoinHandle<()>>,
}

/// Connection to an agent, shared by its threads and sessions.
#[derive(Debug)]
struct AgentLink {
    name: String,
    channel: Channel,
    state: Mutex<LinkState>,
    /// Notified when the connection has ended.
    ended: Condvar,
}

#[derive(Debug, Default)]
struct LinkState {
    last_session: u32,
    /// Sessions by number.
    sessions: BTreeMap<u32, Session>,
    /// Reason why the connection has ended.
    lost: Option<String>,
}

#[derive(Debug)]
struct Session {
    /// Queue of the output; `None` after its end.
    output: Option<SyncSender<Vec<u8>>>,
    log: Option<File>,
    /// Exit status; `None` while the session runs.
    status: Option<ExitStatus>,
}

impl AgentMachine {
    /// Starts the threads of an accepted agent.
    pub(super) fn start(name: &str, channel: Channel) -> io::Result<Self> {
        channel.set_receive_timeout(SILENCE_MAX)?;
        let link = Arc::new(AgentLink {
            name: name.to_owned(),
            channel,
            state: Mutex::default(),
            ended: Condvar::new(),
        });
        let (reader, heartbeat) = (Arc::clone(&link), Arc::clone(&link));
        let threads = vec![
            thread::spawn(move || reader.read_frames()),
            thread::spawn(move || heartbeat.send_heartbeats()),
        ];
        Ok(Self { link, threads })
    }

    /// Starts a session, whose log is written to the file `log`. Returns it with its output.
    ///
    /// # Errors
    /// An error if the agent was lost.
    pub(crate) fn open(&self, log: Option<File>) -> io::Result<(AgentSession, SessionOutput)> {
        let (output, chunks) = mpsc::sync_channel(CHUNKS_QUEUED_MAX);
        let number = {
            let mut state = self.link.lock();
            if let Some(reason) = &state.lost {
                return Err(self.link.lost_error(reason));
            }
            state.last_session += 1;
            let number = state.last_session;
            let session = Session {
                output: Some(output),
                log,
                status: None,
            };
            state.sessions.insert(number, session);
            number
        };
        self.link.channel.send(FrameKind::Open, number, &[])?;
        let link = Arc::clone(&self.link);
        let output = SessionOutput {
            chunks,
            chunk: Vec::new(),
            read: 0,
        };
        let session = AgentSession {
            link,
            number,
            input: None,
        };
        Ok((session, output))
    }

    /// Closes the connection without an `End` message.
    #[cfg(test)]
    pub(super) fn disconnect(&self) {
        self.link.end("disconnected");
    }

    /// Returns the reason why the agent was lost; `None`: it is connected.
    pub(crate) fn lost(&self) -> Option<String> {
        self.link.lock().lost.clone()
    }
}

impl Drop for AgentMachine {
    /// Ends the run on the agent, and waits until its processes have ended.
    fn drop(&mut self) {
        // Fails only if the agent was lost.
        let _ = self.link.channel.send(FrameKind::RunEnd, 0, &[]);
        let deadline = Instant::now() + END_TIMEOUT;
        let mut state = self.link.lock();
        while state.lost.is_none() && Instant::now() < deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            let waited = self.link.ended.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        self.link.end("the run has ended");
        for thread in self.threads.drain(..) {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

impl AgentLink {
    fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost_error(&self, reason: &str) -> io::Error {
        io::Error::other(format!("agent {} was lost: {reason}", self.name))
    }

    fn read_frames(&self) {
        let reason = loop {
            match self.channel.receive() {
                Ok(Some(frame)) => {
                    if let Err(reason) = self.on_frame(frame) {
                        break reason.to_owned();
                    }
                }
                Ok(None) => break "it ended".to_owned(),
                Err(error) if is_timeout(&error) => {
                    break format!("no message for {} s", SILENCE_MAX.as_secs());
                }
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    break "its connection ended".to_owned();
                }
                Err(error) => break error.to_string(),
            }
        };
        self.end(&reason);
    }

    fn on_frame(&self, frame: Frame) -> Result<(), &'static str> {
        let mut state = self.lock();
        let Some(session) = state.sessions.get_mut(&frame.session) else {
            return match frame.kind {
                // The coordinator may have dropped the session.
                FrameKind::Heartbeat
                | FrameKind::Output
                | FrameKind::Log
                | FrameKind::SessionEnded => Ok(()),
                _ => Err("it sent an unexpected message"),
            };
        };
        match frame.kind {
            FrameKind::Output => {
                let output = session.output.clone();
                drop(state);
                // Blocks while the queue is full, which in turn blocks the agent. Fails if the
                // reader has been dropped.
                output.map(|it| it.send(frame.data));
            }
            FrameKind::Log => {
                // An error of the log file does not end the run.
                let _ = session.log.as_mut().map(|log| log.write_all(&frame.data));
            }
            FrameKind::SessionEnded => {
                let code = <[u8; 4]>::try_from(&frame.data[..]).map(i32::from_be_bytes);
                let code = code.map_err(|_| "it sent an invalid exit code")?;
                session.status = Some(exit_status(code));
                session.output = None;
            }
            _ => return Err("it sent an unexpected message"),
        }
        Ok(())
    }

    /// Marks the agent as lost, with the reason in the log of each session, and ends its sessions.
    fn end(&self, reason: &str) {
        let mut state = self.lock();
        if state.lost.is_none() {
            state.lost = Some(reason.to_owned());
            for session in state.sessions.values_mut() {
                if session.status.is_none() {
                    let text = format!("{}\n", self.lost_error(reason));
                    let _ = session
                        .log
                        .as_mut()
                        .map(|log| log.write_all(text.as_bytes()));
                    session.status = Some(exit_status(LOST_CODE));
                }
                session.output = None;
            }
        }
        drop(state);
        self.ended.notify_all();
        self.channel.close();
    }

    /// Sends heartbeats from a separate thread, so that a busy coordinator does not count as lost.
    fn send_heartbeats(&self) {
        let mut state = self.lock();
        while state.lost.is_none() {
            drop(state);
            // If this fails, the reader thread detects the lost agent.
            let _ = self.channel.send(FrameKind::Heartbeat, 0, &[]);
            let waited = self.ended.wait_timeout(self.lock(), HEARTBEAT_INTERVAL);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Session on an agent's machine. Dropping it ends the session.
#[derive(Debug)]
pub(crate) struct AgentSession {
    link: Arc<AgentLink>,
    number: u32,
    /// Input that stays open until the session is dropped.
    input: Option<SessionInput>,
}

impl AgentSession {
    /// Returns the input of the session. Dropping it ends the input.
    pub(crate) fn input(&self) -> SessionInput {
        SessionInput {
            link: Arc::clone(&self.link),
            number: self.number,
        }
    }

    /// Keeps the input open until the session is dropped.
    pub(crate) fn keep_input(&mut self, input: SessionInput) {
        self.input = Some(input);
    }

    /// Returns the exit status if the session has ended.
    pub(crate) fn exit_status(&self) -> Option<ExitStatus> {
        let state = self.link.lock();
        state.sessions.get(&self.number)?.status
    }
}

impl Drop for AgentSession {
    fn drop(&mut self) {
        self.link.lock().sessions.remove(&self.number);
        // Empty: the end of the input, which ends the session. Fails only if the agent was lost;
        // then the session has ended.
        let _ = self.link.channel.send(FrameKind::Input, self.number, &[]);
    }
}

/// Input of a session. Dropping it ends the input.
#[derive(Debug)]
pub(crate) struct SessionInput {
    link: Arc<AgentLink>,
    number: u32,
}

impl Write for SessionInput {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.link
            .channel
            .send_all(FrameKind::Input, self.number, data)?;
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for SessionInput {
    fn drop(&mut self) {
        // Empty: the end of the input. Fails only if the agent was lost; then the session has
        // ended.
        let _ = self.link.channel.send(FrameKind::Input, self.number, &[]);
    }
}

/// Output of a session, until it ends.
#[derive(Debug)]
pub(crate) struct SessionOutput {
    chunks: Receiver<Vec<u8>>,
    chunk: Vec<u8>,
    /// Number of bytes of `chunk` that have been read.
    read: usize,
}

impl Read for SessionOutput {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.read == self.chunk.len() {
            let Ok(chunk) = self.chunks.recv() else {
                return Ok(0);
            };
            (self.chunk, self.read) = (chunk, 0);
        }
        let count = (&self.chunk[self.read..]).read(buffer)?;
        self.read += count;
        Ok(count)
    }
}

/// Returns `true` for the errors of a socket whose timeout has passed.
pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn exit_status(code: i32) -> ExitStatus {
    ExitStatus::from_raw((code & 0xff) << 8)
}

/// Time between two heartbeats.
pub(super) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum time without a message from the other side.
pub(super) const SILENCE_MAX: Duration = Duration::from_secs(10);
/// Maximum time in which the agent must end its processes.
pub(super) const END_TIMEOUT: Duration = Duration::from_secs(15);
/// Size of the queue of a session's output, in chunks of up to 16 KiB.
const CHUNKS_QUEUED_MAX: usize = 256;
/// Exit code of a session whose agent was lost; the same as ssh uses for a lost connection.
const LOST_CODE: i32 = 255;
