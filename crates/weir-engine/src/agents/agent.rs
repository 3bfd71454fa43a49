//! Agent: `weir agent --machine`, which runs sessions for a coordinator until the run ends.
//!
//! Each session is a process `weir agent --stdio`, the same as over ssh. If this process ends, even
//! by a signal, the input of each session closes, and the session ends its role.

use std::collections::BTreeMap;
use std::io::{self, Read, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use thiserror::Error;
use weir_load::child_environment::without_weir_variables;

use super::channel::{Channel, RunToken};
use super::frames::{AgentHello, FrameKind};
use super::machine::{END_TIMEOUT, HEARTBEAT_INTERVAL, SILENCE_MAX, is_timeout};

/// Options of an agent that runs roles.
#[derive(Debug, Clone)]
pub struct MachineAgentOptions {
    /// Address `host:port` of the coordinator.
    pub coordinator: String,
    /// Token of the run.
    pub token: String,
    /// Name of this machine in the inventory.
    pub machine: String,
    /// Maximum time to connect to the coordinator.
    pub connect_timeout: Duration,
}

/// Error of an agent.
#[derive(Debug, Error)]
pub enum MachineAgentError {
    /// The executable of this program cannot be read.
    #[error("cannot read the executable of this program: {0}")]
    Program(io::Error),
    /// The token is too short to be a secret.
    #[error("the token has fewer than {TOKEN_BYTES_MIN} characters: use that of the coordinator")]
    Token,
    /// There is no coordinator at the address.
    #[error("coordinator at {0}: {1}; check the address and that the run has started")]
    Unreachable(String, io::Error),
    /// The server at the address is not the coordinator of the token.
    #[error("coordinator at {0}: it has another token: use that of the run")]
    OtherToken(String),
    /// The coordinator rejected the agent, with this reason.
    #[error("the coordinator rejected this agent: {0}")]
    Rejected(String),
    /// The connection ended before the run.
    #[error("coordinator at {0}: {1}; all processes of this agent were ended")]
    Lost(String, String),
}

/// Joins a run, and runs its sessions until it ends.
///
/// # Errors
/// [`MachineAgentError`] if the agent cannot join, or the coordinator was lost.
pub fn run_machine_agent(options: &MachineAgentOptions) -> Result<(), MachineAgentError> {
    if options.token.len() < TOKEN_BYTES_MIN {
        return Err(MachineAgentError::Token);
    }
    let program = std::env::current_exe().map_err(MachineAgentError::Program)?;
    let token = RunToken::new(&options.token).map_err(MachineAgentError::Program)?;
    let hello = AgentHello::new(&options.token, &options.machine, &program);
    let hello = hello.map_err(MachineAgentError::Program)?;
    let channel = Arc::new(join(options, &token, &hello)?);
    tracing::info!(machine = options.machine, "joined the run");
    let lost = |reason: String| MachineAgentError::Lost(options.coordinator.clone(), reason);
    channel
        .set_receive_timeout(SILENCE_MAX)
        .map_err(|error| lost(error.to_string()))?;
    let beating = Heartbeats::start(Arc::clone(&channel));
    let mut sessions = AgentSessions::new(program, Arc::clone(&channel));
    let reason = sessions.serve();
    sessions.end();
    drop(beating);
    channel.finish();
    reason.map_or(Ok(()), |reason| Err(lost(reason)))
}

/// Connects until the timeout: agents and coordinator may start in any order.
fn join(
    options: &MachineAgentOptions,
    token: &RunToken,
    hello: &AgentHello,
) -> Result<Channel, MachineAgentError> {
    let coordinator = || options.coordinator.clone();
    let deadline = Instant::now() + options.connect_timeout;
    loop {
        let error = match offer(options, token, hello) {
            Ok(OfferOutcome::Accepted(channel)) => return Ok(*channel),
            Ok(OfferOutcome::Rejected(reason)) => return Err(MachineAgentError::Rejected(reason)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                return Err(MachineAgentError::OtherToken(coordinator()));
            }
            Err(error) => error,
        };
        if Instant::now() + RETRY_INTERVAL > deadline {
            return Err(MachineAgentError::Unreachable(coordinator(), error));
        }
        thread::sleep(RETRY_INTERVAL);
    }
}

/// Response of the coordinator to the offer of an agent.
enum OfferOutcome {
    Accepted(Box<Channel>),
    /// With the reason.
    Rejected(String),
}

/// Connects to the coordinator once and offers this machine.
fn offer(
    options: &MachineAgentOptions,
    token: &RunToken,
    hello: &AgentHello,
) -> io::Result<OfferOutcome> {
    let socket = connect(&options.coordinator)?;
    let deadline = Instant::now() + ACCEPT_TIMEOUT;
    let channel = Channel::connect(socket, token, deadline)?;
    channel.send_all(FrameKind::Hello, 0, &serde_json::to_vec(hello)?)?;
    let response = channel.receive_until(deadline)?;
    let response = response.ok_or(io::ErrorKind::UnexpectedEof)?;
    match response.kind {
        FrameKind::Accepted => Ok(OfferOutcome::Accepted(Box::new(channel))),
        FrameKind::Rejected => {
            let reason = String::from_utf8_lossy(&response.data).into_owned();
            Ok(OfferOutcome::Rejected(reason))
        }
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

fn connect(coordinator: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in coordinator.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Thread that sends heartbeats until this is dropped.
struct Heartbeats(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Heartbeats {
    fn start(channel: Arc<Channel>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let is_stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !is_stopped.load(Ordering::Relaxed) {
                if channel.send(FrameKind::Heartbeat, 0, &[]).is_err() {
                    // Ends the reads of the other thread, too.
                    channel.close();
                    return;
                }
                thread::park_timeout(HEARTBEAT_INTERVAL);
            }
        });
        Self(stop, Some(thread))
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(thread) = self.1.take() {
            thread.thread().unpark();
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

/// Processes of an agent.
struct AgentSessions {
    program: PathBuf,
    channel: Arc<Channel>,
    inputs: BTreeMap<u32, ChildStdin>,
    threads: Vec<JoinHandle<()>>,
    /// Set when processes that are left must be killed.
    kill: Arc<AtomicBool>,
}

impl AgentSessions {
    fn new(program: PathBuf, channel: Arc<Channel>) -> Self {
        Self {
            program,
            channel,
            inputs: BTreeMap::new(),
            threads: Vec::new(),
            kill: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Serves the coordinator until the end of the run. Returns `None`, or the reason why the
    /// connection ended before that.
    fn serve(&mut self) -> Option<String> {
        loop {
            let frame = match self.channel.receive() {
                Ok(Some(frame)) => frame,
                Ok(None) => return Some("it ended the connection".to_owned()),
                Err(error) if is_timeout(&error) => {
                    return Some(format!("no message for {} s", SILENCE_MAX.as_secs()));
                }
                Err(error) => return Some(error.to_string()),
            };
            match frame.kind {
                FrameKind::RunEnd => return None,
                FrameKind::Open => self.open(frame.session),
                FrameKind::Input if frame.data.is_empty() => {
                    self.inputs.remove(&frame.session);
                }
                FrameKind::Input => {
                    if let Some(input) = self.inputs.get_mut(&frame.session) {
                        // Fails if the process has ended, which its thread reports.
                        let _ = input.write_all(&frame.data).and_then(|()| input.flush());
                    }
                }
                _ => {}
            }
        }
    }

    /// Starts a session. If it cannot be started, it ends at once, with the reason as its log.
    fn open(&mut self, number: u32) {
        self.threads.retain(|thread| !thread.is_finished());
        let started = match self.threads.len() < SESSIONS_MAX {
            true => self.spawn(),
            false => Err(io::Error::other(format!(
                "more than {SESSIONS_MAX} sessions"
            ))),
        };
        match started {
            Ok(mut child) => {
                self.inputs
                    .extend(child.stdin.take().map(|input| (number, input)));
                let (channel, kill) = (Arc::clone(&self.channel), Arc::clone(&self.kill));
                let run = move || run_session(&channel, number, child, &kill);
                self.threads.push(thread::spawn(run));
            }
            Err(error) => {
                let reason = format!("cannot start the session: {error}\n");
                // Fails only if the coordinator was lost.
                let _ = self
                    .channel
                    .send_all(FrameKind::Log, number, reason.as_bytes())
                    .and_then(|()| {
                        self.channel
                            .send(FrameKind::SessionEnded, number, &ended(None))
                    });
            }
        }
    }

    fn spawn(&self) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        without_weir_variables(&mut command)
            .args(["agent", "--stdio"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
    }

    /// Ends all sessions by closing their inputs. Kills those that run after [`END_TIMEOUT`].
    fn end(&mut self) {
        self.inputs.clear();
        let deadline = Instant::now() + END_TIMEOUT;
        while Instant::now() < deadline && !self.threads.iter().all(JoinHandle::is_finished) {
            thread::sleep(POLL_INTERVAL);
        }
        self.kill.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

/// Forwards output and log of a session until it ends.
fn run_session(channel: &Arc<Channel>, number: u32, mut child: Child, kill: &AtomicBool) {
    let output = child
        .stdout
        .take()
        .map(|it| forward(channel, FrameKind::Output, number, it));
    let log = child
        .stderr
        .take()
        .map(|it| forward(channel, FrameKind::Log, number, it));
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            Ok(None) if !kill.load(Ordering::Relaxed) => thread::sleep(POLL_INTERVAL),
            _ => {
                // Both fail only if it has ended.
                let _ = child.kill();
                break child.wait().ok();
            }
        }
    };
    for thread in [output, log].into_iter().flatten() {
        // A panic of the thread has been printed.
        let _ = thread.join();
    }
    let code = status.and_then(|it| it.code());
    // Fails only if the coordinator was lost.
    let _ = channel.send(FrameKind::SessionEnded, number, &ended(code));
}

fn forward(
    channel: &Arc<Channel>,
    kind: FrameKind,
    number: u32,
    mut stream: impl Read + Send + 'static,
) -> JoinHandle<()> {
    let channel = Arc::clone(channel);
    thread::spawn(move || {
        let mut buffer = [0; COPY_BYTES];
        loop {
            let count = match stream.read(&mut buffer) {
                Ok(0) => return,
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            // If the coordinator was lost, output is still read, so that the process can end.
            let _ = channel.send_all(kind, number, &buffer[..count]);
        }
    })
}

fn ended(code: Option<i32>) -> [u8; 4] {
    code.unwrap_or(-1).to_be_bytes()
}

/// Minimum length of a token: the key of the connection is derived from it.
pub(super) const TOKEN_BYTES_MIN: usize = 16;
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const ACCEPT_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
const SESSIONS_MAX: usize = 64;
const COPY_BYTES: usize = 16 << 10;
