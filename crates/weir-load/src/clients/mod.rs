//! Simulated clients by the ten thousand in one event loop: TLCP sessions over WebSocket, or plain
//! sockets of the floor server. Every update is parsed, timed and checked.

mod client_pool;
mod descriptors;
mod diff_choice;
mod fields;
mod items;
pub mod meter;
pub mod mode_name;
mod reference_values;
pub mod scenario;
mod servers;
mod session;
mod shared;
pub mod simulator_file;
mod target;
mod verify;

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_net::client::{ClientLoop, ClientOptions};
pub use weir_tlcp::Mode;

use crate::clock::Clock;
use crate::delivery::DeliverySummary;
use crate::error::ErrorClass;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::WorkerRole;

pub use descriptors::{descriptors_allowed, raise_descriptors};
pub use diff_choice::DiffChoice;
pub use fields::FieldMap;
pub use items::{ClientShare, assign_keys};
pub use scenario::{KEY_PLACEHOLDER, Scenario, Subscribe};

/// What the clients of a run do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientsOptions {
    /// `ws://host:port` or `wss://host:port`, also just `host:port`; clients take them in turn.
    pub servers: Vec<String>,
    /// Ask for compressed messages (permessage-deflate); a server that does not agree is an error.
    #[serde(default)]
    pub compression: bool,
    /// What is trusted where a server's address begins with `wss://`.
    pub tls: TlsTrust,
    /// TLCP or floor.
    pub kind: ClientProtocol,
    /// Number of clients of the whole run.
    pub clients: usize,
    /// The part of them that this process has.
    pub share: ClientShare,
    /// New connections per second of the whole run.
    pub ramp_per_s: f64,
    /// Item of each client; `{key}` stands for its key. Without it everybody is owed every record.
    pub items: String,
    /// The record keys the clients are spread over.
    pub keys: Vec<String>,
    /// Decides which client has which key.
    pub seed: u64,
    /// Field schema, in order.
    pub fields: Vec<String>,
    /// Diffs that sessions allow; they are applied where a value is looked at.
    #[serde(default)]
    pub diffs: DiffChoice,
    /// Compare the values of all clients with those of one client per key that allows no diffs.
    #[serde(default)]
    pub verify_values: bool,
    /// Take latencies only of records whose timestamp carries [`MARK`](crate::payload::MARK).
    pub marked_only: bool,
    /// Time records without a due time by their timestamp, the field `ts`.
    #[serde(default)]
    pub record_timestamps: bool,
    /// How often the published programs' report is made; `None`: never.
    pub seed_report: Option<Duration>,
    /// Longest time from the start of a connection to its active subscription.
    pub setup_timeout: Duration,
}

/// Which certificates clients accept.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsTrust {
    /// None was named: `wss://` is refused.
    #[default]
    Nobody,
    /// Those of these authorities, as the text of a PEM file.
    Authorities(String),
    /// Any: who answers is not checked.
    Anybody,
}

/// What the clients speak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientProtocol {
    /// TLCP over WebSocket.
    Tlcp {
        /// Adapter set.
        adapter_set: String,
        /// Data adapter of the subscription.
        data_adapter: Option<String>,
        /// Subscription mode.
        #[serde(with = "mode_name")]
        mode: Mode,
    },
    /// The floor's line: a key up, `OK` and frames down.
    Floor,
}

impl ClientsOptions {
    /// `clients` clients at `server` that subscribe what `subscribe` says, in mode RAW, to 40 keys.
    pub fn new(server: impl Into<String>, subscribe: &Subscribe, clients: usize) -> Self {
        Self {
            servers: vec![server.into()],
            compression: false,
            tls: TlsTrust::Nobody,
            kind: ClientProtocol::Tlcp {
                adapter_set: subscribe.adapter_set.clone(),
                data_adapter: Some(subscribe.data_adapter.clone()),
                mode: Mode::Raw,
            },
            clients,
            share: ClientShare::WHOLE,
            ramp_per_s: 1000.0,
            items: subscribe.items.clone(),
            keys: subscribe.pool.names(KEYS, false),
            seed: 1,
            fields: subscribe.fields.clone(),
            diffs: DiffChoice::NONE,
            verify_values: false,
            marked_only: false,
            record_timestamps: false,
            seed_report: None,
            setup_timeout: Duration::from_secs(30),
        }
    }

    /// `clients` clients of seed scenario 2 at `server`, with the stamp field the built-in plans map.
    pub fn scenario_2(server: impl Into<String>, clients: usize) -> Self {
        let mut subscribe = Scenario::Two.corrected();
        subscribe.fields.push("weir".to_owned());
        Self::new(server, &subscribe, clients)
    }

    /// Whether each client wants the records of one key only.
    pub fn is_keyed(&self) -> bool {
        self.items.contains(KEY_PLACEHOLDER)
    }

    /// Connections this process opens.
    pub fn local_clients(&self) -> usize {
        self.share.count(self.clients)
    }
}

/// Why clients could not run.
#[derive(Debug, Error)]
pub enum ClientsError {
    /// The server's address cannot be used.
    #[error("--url {server}: {reason}, write for example ws://127.0.0.1:8080")]
    Server {
        /// As given.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Each client needs a file descriptor.
    #[error(
        "{clients} clients need {needed} file descriptors, this process may have {allowed}: raise \
         the hard limit (ulimit -Hn), take fewer clients, or share them out with --engine local"
    )]
    Descriptors {
        /// Clients asked for.
        clients: usize,
        /// Descriptors they need.
        needed: u64,
        /// The hard limit.
        allowed: u64,
    },
    /// Not one client could connect, or the server refused all of them.
    #[error("no client could subscribe at {server}: {reason}")]
    Unreachable {
        /// The server.
        server: String,
        /// The most frequent reason.
        reason: String,
    },
    /// The operating system failed us.
    #[error("event loop of the clients failed: {0}")]
    Io(#[from] io::Error),
}

impl ClientsError {
    /// Whose fault it is.
    pub fn fault(&self) -> ErrorClass {
        match self {
            Self::Server { .. } => ErrorClass::Usage,
            Self::Unreachable { .. } => ErrorClass::Target,
            Self::Descriptors { .. } | Self::Io(_) => ErrorClass::Instrument,
        }
    }
}

/// Runs the clients until the coordinator or the schedule ends them, reporting over `link`; returns
/// what was reported last.
///
/// # Errors
/// [`ClientsError`] if there was nothing to measure; the link has not been told.
pub fn run(
    options: &ClientsOptions,
    link: &CoordinatorChannel,
) -> Result<DeliverySummary, ClientsError> {
    let role = match options.kind {
        ClientProtocol::Tlcp { .. } => WorkerRole::Clients,
        ClientProtocol::Floor => WorkerRole::FloorClients,
    };
    link.events.hello(role);
    let clients = options.local_clients();
    let needed = clients as u64 + DESCRIPTORS_SPARE;
    let allowed = raise_descriptors(needed)?;
    if needed > allowed {
        return Err(ClientsError::Descriptors {
            clients,
            needed,
            allowed,
        });
    }
    let servers = servers::local_servers(options)?;
    let mut loop_options = ClientOptions::new(servers.addresses[0], clients);
    loop_options.more_servers = servers.addresses[1..].to_vec();
    loop_options.tls = servers.tls;
    loop_options.ramp_per_s = options.ramp_per_s / options.share.of.max(1) as f64;
    let target = target::RequestTexts::new(options, &servers.authorities);
    let mut fleet = client_pool::ClientPool::new(options, &target, link, Clock::start());
    ClientLoop::new(loop_options)?.run(&mut fleet)?;
    fleet.finish()
}

/// Clients that fit one process, by its limit of descriptors.
pub fn clients_per_process() -> usize {
    let allowed = descriptors_allowed().saturating_sub(DESCRIPTORS_SPARE);
    usize::try_from(allowed).unwrap_or(usize::MAX).max(1)
}

/// As many keys as the published generator has.
const KEYS: usize = 40;
/// Standard streams, poll, log files and what the allocator or a resolver may open.
const DESCRIPTORS_SPARE: u64 = 64;

#[cfg(test)]
mod tests;
