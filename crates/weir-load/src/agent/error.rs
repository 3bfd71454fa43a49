//! Why a run of several processes could not go on, by whose fault.

use std::io;

use thiserror::Error;

use crate::clients::ClientsError;
use crate::error::ErrorClass;

/// Why agents or their coordinator failed.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The coordinator cannot listen.
    #[error("cannot listen for agents on {address}: {reason}")]
    Listen {
        /// The address.
        address: String,
        /// The operating system's reason.
        reason: io::Error,
    },
    /// An agent could not be started.
    #[error("agent not started: {0}")]
    Start(io::Error),
    /// An agent of ours ended before it came.
    #[error("agent with pid {pid} ended before it took work: {status}")]
    Stillborn {
        /// Its process.
        pid: u32,
        /// How it ended.
        status: String,
    },
    /// Not all agents came.
    #[error(
        "{joined} of {wanted} agents came within {seconds} s{refused}: start the missing ones with \
         `weir agent --coordinator {address}` and the run's token"
    )]
    Missing {
        /// Agents that came.
        joined: usize,
        /// Agents the run needs.
        wanted: usize,
        /// How long was waited.
        seconds: u64,
        /// Who was refused, if anybody.
        refused: String,
        /// Where they were expected.
        address: String,
    },
    /// An agent went away, or fell silent: its share is missing, so nothing of the run counts.
    #[error("{agent} was lost, so the run is not valid: {reason}")]
    Lost {
        /// Which one.
        agent: String,
        /// What was seen of it.
        reason: String,
    },
    /// An agent says that it failed.
    #[error("{agent} failed: {message}")]
    Failed {
        /// Which one.
        agent: String,
        /// Its own words.
        message: String,
        /// Whose fault it says it is.
        fault: ErrorClass,
    },
    /// Seen by an agent: no coordinator, or a broken connection.
    #[error("coordinator at {address}: {reason}")]
    Coordinator {
        /// Where it should be.
        address: String,
        /// What went wrong.
        reason: String,
    },
    /// Seen by an agent: the coordinator does not want it.
    #[error("the coordinator refused this agent: {reason}")]
    Refused {
        /// Its reason.
        reason: String,
    },
    /// Seen by an agent: its own work failed.
    #[error(transparent)]
    Work(ClientsError),
}

impl AgentError {
    /// Whose fault it is.
    pub fn fault(&self) -> ErrorClass {
        match self {
            Self::Listen { .. } | Self::Refused { .. } => ErrorClass::Usage,
            Self::Coordinator { .. } => ErrorClass::Target,
            Self::Failed { fault, .. } => *fault,
            Self::Work(error) => error.fault(),
            Self::Start(_) | Self::Stillborn { .. } | Self::Missing { .. } | Self::Lost { .. } => {
                ErrorClass::Instrument
            }
        }
    }
}
