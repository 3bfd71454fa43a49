//! The first lines between an agent and its coordinator, and the limits of all lines. The worker
//! protocol follows.

use std::io::{self, BufRead, Read as _};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clients::{ClientShare, ClientsOptions};
use crate::error::ErrorClass;
use crate::worker::protocol::WorkerEvent;

/// First line of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct AgentHello {
    /// Secret of the run.
    pub(super) token: String,
    /// Version of the program; both ends must have the same.
    pub(super) version: String,
    /// Process id on the agent's machine.
    pub(super) pid: u32,
}

/// Clock of an agent.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct ClockReading {
    pub(super) unix_ns: u64,
}

impl AgentHello {
    pub(super) fn new(token: &str) -> Self {
        Self {
            token: token.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        }
    }
}

/// Message from the coordinator to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub(super) enum CoordinatorMessage {
    /// The agent is rejected.
    Refused {
        /// Reason.
        reason: String,
    },
    /// Request for the agent's clock.
    Clock,
    /// Request to run a share of the clients.
    Clients {
        /// Share of the agent.
        share: ClientShare,
        /// Options for the clients of the whole run.
        options: Box<ClientsOptions>,
    },
}

/// Error event of a worker with its class.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct FailedEvent {
    #[serde(flatten)]
    pub(super) event: WorkerEvent,
    pub(super) fault: ErrorClass,
}

/// Reads one line of at most `bytes_max` bytes; `None` at the end of the stream.
pub(super) fn read_line(input: &mut impl BufRead, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    input.take(bytes_max).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        Some(_) if line.len() as u64 == bytes_max => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("line of more than {bytes_max} bytes"),
        )),
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

/// Serializes a message as a line.
pub(super) fn line(message: &impl Serialize) -> Vec<u8> {
    // Invariant: messages have no values that JSON cannot represent.
    let mut line = serde_json::to_vec(message).unwrap_or_default();
    line.push(b'\n');
    line
}

/// Parses the message of a line.
pub(super) fn parse<T: DeserializeOwned>(line: &[u8]) -> io::Result<T> {
    serde_json::from_slice(line).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Limit of a hello, which has a few hundred bytes.
pub(super) const HELLO_BYTES_MAX: usize = 4096;
/// Limit of a line. A summary of 20,000 clients with different values has some 600 kB, options with
/// 65,536 keys of 500 characters 33 MB.
pub(super) const LINE_BYTES_MAX: u64 = 64 << 20;
