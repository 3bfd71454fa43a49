//! Machines of the engine `manual`: agents that the user starts connect to the coordinator.
//!
//! [`run_machine_agent`] is the agent, [`AgentsOptions`] describes where the coordinator waits for
//! all agents of an inventory.

mod agent;
mod channel;
mod frames;
mod listener;
mod machine;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::session::sha256;
use channel::RunToken;
use frames::FrameKind;
use listener::{AgentListener, OfferedAgent};

pub use agent::{MachineAgentError, MachineAgentOptions, run_machine_agent};
pub(crate) use machine::{AgentMachine, AgentSession};

/// Where and how long a coordinator waits for agents.
#[derive(Debug, Clone)]
pub struct AgentsOptions {
    /// Listen address; loopback unless agents run on other machines.
    pub listen: SocketAddr,
    /// Secret that agents must have.
    pub token: String,
    /// Maximum wait for all agents.
    pub join_timeout: Duration,
}

/// Run whose agents do not take part.
#[derive(Debug, Error)]
pub enum AgentsError {
    /// The token is too short to be a secret.
    #[error(
        "the token of the run has fewer than {min} characters: use for example that of \
         `openssl rand -hex 16`",
        min = agent::TOKEN_BYTES_MIN
    )]
    Token,
    /// The coordinator cannot listen at the address.
    #[error("cannot listen for agents on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// Not all agents joined in time: their names, the time and the rejected peers.
    #[error(
        "no agent joined within {1} s for {0}{2}: start each with `weir agent --coordinator \
         HOST:PORT --machine NAME` and the token of the run"
    )]
    Missing(String, u64, String),
    /// An agent joined and was lost before all had joined.
    #[error("agent {0} was lost: {1}")]
    Lost(String, String),
    /// The user interrupted the wait.
    #[error("interrupted while waiting for agents")]
    Interrupted,
}

/// Waits until an agent has joined for each of the machines. Returns them with their addresses, in
/// the order of `names`.
///
/// # Errors
/// [`AgentsError`] if an agent is missing or lost.
pub(crate) fn wait_for_agents(
    options: &AgentsOptions,
    names: &[&str],
    program: &Path,
    note: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<Vec<(AgentMachine, IpAddr)>, AgentsError> {
    if options.token.len() < agent::TOKEN_BYTES_MIN {
        return Err(AgentsError::Token);
    }
    let failed = |error| AgentsError::Listen(options.listen, error);
    let token = RunToken::new(&options.token).map_err(failed)?;
    let hash = sha256(program).map_err(failed)?;
    let listener = AgentListener::open(options.listen, token, &hash).map_err(failed)?;
    note(&format!(
        "waiting for agents on {}: {}",
        listener.address,
        names.join(", ")
    ));
    let deadline = Instant::now() + options.join_timeout;
    let mut joined: BTreeMap<String, (AgentMachine, IpAddr)> = BTreeMap::new();
    while joined.len() < names.len() {
        if stop.load(Ordering::Relaxed) {
            return Err(AgentsError::Interrupted);
        }
        if let Some((name, reason)) = lost(&joined) {
            return Err(AgentsError::Lost(name, reason));
        }
        if Instant::now() >= deadline {
            let missing = names.iter().filter(|it| !joined.contains_key(**it));
            let missing: Vec<&str> = missing.copied().collect();
            let seconds = options.join_timeout.as_secs();
            let rejected = listener.rejected();
            return Err(AgentsError::Missing(missing.join(", "), seconds, rejected));
        }
        let Some(offered) = listener.next(POLL_INTERVAL) else {
            continue;
        };
        if let Some(reason) = rejection(&offered, names, &joined) {
            listener.reject(&offered, &reason);
            continue;
        }
        let (name, peer) = (offered.machine, offered.peer);
        let accepted = offered.channel.send(FrameKind::Accepted, 0, &[]);
        let machine = accepted.and_then(|()| AgentMachine::start(&name, offered.channel));
        let lost = |error: io::Error| AgentsError::Lost(name.clone(), error.to_string());
        joined.insert(name.clone(), (machine.map_err(lost)?, peer.ip()));
        let (count, all) = (joined.len(), names.len());
        note(&format!(
            "agent {name} joined from {peer} ({count} of {all})"
        ));
    }
    Ok(names
        .iter()
        .filter_map(|name| joined.remove(*name))
        .collect())
}

fn lost(joined: &BTreeMap<String, (AgentMachine, IpAddr)>) -> Option<(String, String)> {
    let mut all = joined.iter();
    all.find_map(|(name, (machine, _))| Some((name.clone(), machine.lost()?)))
}

/// Returns the reason why an agent cannot take part; `None` if it can.
fn rejection(
    offered: &OfferedAgent,
    names: &[&str],
    joined: &BTreeMap<String, (AgentMachine, IpAddr)>,
) -> Option<String> {
    let name = &offered.machine;
    if !names.contains(&name.as_str()) {
        let known = names.join(", ");
        // The name comes from a peer: it may be long or contain control characters.
        let name: String = name.chars().take(NAME_CHARS_MAX).collect();
        return Some(format!("no machine {name:?}: the run has {known}"));
    }
    let again = || format!("another agent has joined as {name}");
    joined.contains_key(name).then(again)
}

const POLL_INTERVAL: Duration = Duration::from_millis(50);
const NAME_CHARS_MAX: usize = 64;
