//! Load beyond one process. Agents connect to a coordinator, run a share of the clients, and report
//! like any worker. The coordinator acts as a single worker for the process that started it.

mod agent_set;
mod coordinator;
mod engine;
mod listener;

use std::io::{self, BufReader, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use thiserror::Error;

use weir_load::clients::{self, ClientsOptions};
use weir_load::clock::Clock;
use weir_load::error::{ErrorClass, LoadError};
use weir_load::share::WorkerShare;
use weir_load::worker::{CoordinatorChannel, line, read_message};

pub use coordinator::AgentCoordinator;
pub use engine::{CoordinatorOptions, Engine};

/// Environment variable with the token for agents.
pub const TOKEN_VARIABLE: &str = "WEIR_AGENT_TOKEN";

type Result<T, E = AgentError> = std::result::Result<T, E>;

/// Error of an agent or its coordinator.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The coordinator cannot listen for agents on an address.
    #[error("cannot listen for agents on {0}: {1}")]
    Listen(String, io::Error),
    /// A local agent did not start.
    #[error("cannot start agent: {0}")]
    Start(io::Error),
    /// A local agent ended with a status before it joined.
    #[error("agent with pid {0} ended before it joined the run: {1}")]
    EndedEarly(u32, String),
    /// Not all agents joined in time.
    #[error("{0}: start the missing ones with `weir agent --coordinator {1}` and the run's token")]
    Missing(String, SocketAddr),
    /// An agent closed its connection or stopped reporting. Its share is missing, so the run is not
    /// valid.
    #[error("{0} was lost, so the run is not valid: {1}")]
    Lost(String, String),
    /// An agent reported an error of this class.
    #[error("{0} failed: {1}")]
    Failed(String, String, ErrorClass),
    /// On an agent: no coordinator at the address, or a broken connection.
    #[error("coordinator at {0}: {1}")]
    Coordinator(String, io::Error),
    /// On an agent: the coordinator rejected it, with this reason.
    #[error("the coordinator rejected this agent: {0}")]
    Rejected(String),
    /// On an agent: its clients failed.
    #[error(transparent)]
    Work(LoadError),
}

impl AgentError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Listen(..) | Self::Rejected(_) => ErrorClass::Usage,
            Self::Coordinator(..) => ErrorClass::Target,
            Self::Failed(_, _, class) => *class,
            Self::Work(error) => error.class(),
            Self::Start(_) | Self::EndedEarly(..) | Self::Missing(..) | Self::Lost(..) => {
                ErrorClass::Tool
            }
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct AgentHello {
    token: String,
    /// Version of the program; both ends must have the same.
    version: String,
    /// Process id on the agent's machine.
    pid: u32,
}

impl AgentHello {
    fn new(token: &str) -> Self {
        Self {
            token: token.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        }
    }
}

/// Message from the coordinator to an agent, until the worker protocol follows.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
enum CoordinatorMessage {
    /// The agent is rejected.
    Refused { reason: String },
    /// Request for the agent's clock; the response is a line with its Unix time in nanoseconds.
    Clock,
    /// Request to run a share of the clients; `options` are those of the whole run.
    Clients {
        share: WorkerShare,
        options: Box<ClientsOptions>,
    },
}

/// Options of an agent.
#[derive(Debug, Clone)]
pub struct AgentOptions {
    /// Address `host:port` of the coordinator.
    pub coordinator: String,
    /// Secret that the coordinator requires.
    pub token: String,
    /// Maximum time to connect to the coordinator.
    pub connect_timeout: Duration,
}

/// Returns a new secret for one run.
pub fn new_token() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Runs a share of the clients for one coordinator until the end of its run. If they fail, the
/// coordinator is informed.
pub fn run(options: &AgentOptions) -> Result<()> {
    let broken = |reason| AgentError::Coordinator(options.coordinator.clone(), reason);
    let stream = dial(options).map_err(broken)?;
    let mut output = stream.try_clone().map_err(broken)?;
    let mut input = BufReader::new(stream);
    let joined = join(&mut input, &mut output, &options.token).map_err(broken)?;
    let work = match joined {
        JoinOutcome::Clients(work) => work,
        JoinOutcome::Rejected(reason) => return Err(AgentError::Rejected(reason)),
    };
    let WorkerShare { index, of } = work.share;
    tracing::info!(agent = index + 1, of, "joined the run");
    let last = output.try_clone().map_err(broken)?;
    let link = CoordinatorChannel::over(input, output);
    let result = clients::run(&work, &link).map(drop).map_err(|error| {
        // The coordinator may have closed the connection.
        link.events.error(error.to_string(), Some(error.class()));
        AgentError::Work(error)
    });
    // The thread that reads commands has its own handle.
    let _ = last.shutdown(Shutdown::Write);
    result
}

/// Response of the coordinator to an agent.
enum JoinOutcome {
    /// The clients to run.
    Clients(Box<ClientsOptions>),
    Rejected(String),
}

/// Sends the hello and returns the response of the coordinator.
fn join(
    input: &mut BufReader<TcpStream>,
    output: &mut TcpStream,
    token: &str,
) -> io::Result<JoinOutcome> {
    output.set_nodelay(true)?;
    // A coordinator that does not read must not block the measurement.
    output.set_write_timeout(Some(WRITE_TIMEOUT))?;
    output.write_all(&line(&AgentHello::new(token)))?;
    let clock = Clock::start();
    loop {
        match read_message(input)?.ok_or(io::ErrorKind::UnexpectedEof)? {
            CoordinatorMessage::Refused { reason } => return Ok(JoinOutcome::Rejected(reason)),
            CoordinatorMessage::Clients { share, options } => {
                let clients = ClientsOptions { share, ..*options };
                return Ok(JoinOutcome::Clients(Box::new(clients)));
            }
            CoordinatorMessage::Clock => output.write_all(&line(&clock.now_unix_ns()))?,
        }
    }
}

/// Connects with retries until the timeout: agents and coordinator may start in any order.
fn dial(options: &AgentOptions) -> io::Result<TcpStream> {
    let deadline = Instant::now() + options.connect_timeout;
    loop {
        match connect(&options.coordinator) {
            Err(_) if Instant::now() + RETRY_INTERVAL <= deadline => {
                std::thread::sleep(RETRY_INTERVAL);
            }
            result => return result,
        }
    }
}

fn connect(coordinator: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in coordinator.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_TIMEOUT) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

const RETRY_INTERVAL: Duration = Duration::from_millis(200);
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests;
