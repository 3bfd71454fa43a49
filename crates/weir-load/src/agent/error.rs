//! Errors of runs with several processes, by class.

use std::io;

use thiserror::Error;

use crate::clients::ClientsError;
use crate::error::ErrorClass;

/// Error of an agent or its coordinator.
#[derive(Debug, Error)]
pub enum AgentError {
    /// The coordinator cannot listen for agents.
    #[error("cannot listen for agents on {address}: {reason}")]
    Listen {
        /// Listen address.
        address: String,
        /// Error of the operating system.
        reason: io::Error,
    },
    /// A local agent did not start.
    #[error("cannot start agent: {0}")]
    Start(io::Error),
    /// A local agent ended before it joined.
    #[error("agent with pid {pid} ended before it joined the run: {status}")]
    EndedEarly {
        /// Process id.
        pid: u32,
        /// Exit status.
        status: String,
    },
    /// Not all agents joined in time.
    #[error(
        "only {joined} of {required} agents joined within {seconds} s{rejected}: start the \
             missing ones with `weir agent --coordinator {address}` and the run's token"
    )]
    Missing {
        /// Agents that joined.
        joined: usize,
        /// Agents that the run needs.
        required: usize,
        /// Timeout in seconds.
        seconds: u64,
        /// Rejected peers in parentheses; empty if there are none.
        rejected: String,
        /// Address that agents connect to.
        address: String,
    },
    /// An agent closed its connection or stopped reporting. Its share is missing, so the run is not
    /// valid.
    #[error("{agent} was lost, so the run is not valid: {reason}")]
    Lost {
        /// Description of the agent.
        agent: String,
        /// Reason for the loss.
        reason: String,
    },
    /// An agent reported an error.
    #[error("{agent} failed: {message}")]
    Failed {
        /// Description of the agent.
        agent: String,
        /// Error message of the agent.
        message: String,
        /// Class of the error, as reported by the agent.
        fault: ErrorClass,
    },
    /// On an agent: no coordinator, or a broken connection.
    #[error("coordinator at {address}: {reason}")]
    Coordinator {
        /// Address of the coordinator.
        address: String,
        /// Reason.
        reason: String,
    },
    /// On an agent: the coordinator rejected it.
    #[error("the coordinator rejected this agent: {reason}")]
    Rejected {
        /// Reason given by the coordinator.
        reason: String,
    },
    /// On an agent: its clients failed.
    #[error(transparent)]
    Work(ClientsError),
}

impl AgentError {
    /// Returns the class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Listen { .. } | Self::Rejected { .. } => ErrorClass::Usage,
            Self::Coordinator { .. } => ErrorClass::Target,
            Self::Failed { fault, .. } => *fault,
            Self::Work(error) => error.class(),
            Self::Start(_) | Self::EndedEarly { .. } | Self::Missing { .. } | Self::Lost { .. } => {
                ErrorClass::Instrument
            }
        }
    }
}
