//! Load beyond one process. Agents connect to a coordinator, run a share of the clients, and report
//! like any worker. The coordinator acts as a single worker for the process that started it.

mod agent_set;
mod coordinator;
mod engine;
mod error;
mod listener;
mod wire;

use std::io::{self, BufRead, BufReader, Write as _};
use std::net::{Shutdown, TcpStream, ToSocketAddrs as _};
use std::time::{Duration, Instant};

use crate::clients;
use crate::clock::Clock;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::WorkerEvent;

pub use coordinator::{AgentCoordinator, CoordinatorOptions};
pub use engine::Engine;
pub use error::AgentError;

use wire::{AgentHello, ClockReading, CoordinatorMessage, FailedEvent, LINE_BYTES_MAX, read_line};

/// Environment variable with the token for agents.
pub const TOKEN_VARIABLE: &str = "WEIR_AGENT_TOKEN";

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

/// Runs a share of the clients for one coordinator until the end of its run.
///
/// # Errors
/// [`AgentError`] if the coordinator was not reachable or rejected the agent, or the clients
/// failed; the coordinator was informed of the latter.
pub fn run(options: &AgentOptions) -> Result<(), AgentError> {
    let stream = dial(options)?;
    let broken = |reason: io::Error| AgentError::Coordinator {
        address: options.coordinator.clone(),
        reason: reason.to_string(),
    };
    stream.set_nodelay(true).map_err(broken)?;
    // A coordinator that does not read must not block the measurement.
    stream
        .set_write_timeout(Some(WRITE_TIMEOUT))
        .map_err(broken)?;
    let mut output = stream.try_clone().map_err(broken)?;
    let hello = AgentHello::new(&options.token);
    output.write_all(&wire::line(&hello)).map_err(broken)?;
    let mut input = BufReader::new(stream);
    let clock = Clock::start();
    let (share, work) = loop {
        match read_message(&mut input).map_err(broken)? {
            CoordinatorMessage::Refused { reason } => return Err(AgentError::Rejected { reason }),
            CoordinatorMessage::Clients { share, options } => break (share, options),
            CoordinatorMessage::Clock => {
                let unix_ns = clock.now_unix_ns();
                let reading = wire::line(&ClockReading { unix_ns });
                output.write_all(&reading).map_err(broken)?;
            }
        }
    };
    tracing::info!(agent = share.index + 1, of = share.of, "joined the run");
    let mut last = output.try_clone().map_err(broken)?;
    let link = CoordinatorChannel::over(input, output);
    let work = clients::ClientsOptions { share, ..*work };
    let result = match clients::run(&work, &link) {
        Ok(_) => Ok(()),
        Err(error) => {
            let failed = FailedEvent {
                event: WorkerEvent::Error {
                    message: error.to_string(),
                },
                fault: error.class(),
            };
            // The coordinator may have closed the connection.
            let _ = last.write_all(&wire::line(&failed));
            Err(AgentError::Work(error))
        }
    };
    // The thread that reads commands has its own handle.
    let _ = last.shutdown(Shutdown::Write);
    result
}

fn read_message(input: &mut impl BufRead) -> io::Result<CoordinatorMessage> {
    match read_line(input, LINE_BYTES_MAX)? {
        Some(line) => wire::parse(&line),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Connects with retries until the timeout: agents and coordinator may start in any order.
fn dial(options: &AgentOptions) -> Result<TcpStream, AgentError> {
    let deadline = Instant::now() + options.connect_timeout;
    loop {
        let attempt = connect(&options.coordinator);
        match attempt {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() + RETRY_INTERVAL > deadline => {
                return Err(AgentError::Coordinator {
                    address: options.coordinator.clone(),
                    reason: error.to_string(),
                });
            }
            Err(_) => std::thread::sleep(RETRY_INTERVAL),
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
