//! Simulates tens of thousands of clients in one event loop: TLCP sessions over WebSocket, or plain
//! sockets of the baseline server. Every update is parsed, timed and checked.

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

/// Options of the clients of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientsOptions {
    /// Addresses `ws://host:port`, `wss://host:port` or `host:port`; clients use them in turn.
    pub servers: Vec<String>,
    /// Request compressed messages (permessage-deflate); a server that does not agree is an error.
    #[serde(default)]
    pub compression: bool,
    /// Trusted certificates of servers whose address starts with `wss://`.
    pub tls: TlsTrust,
    /// TLCP, or the protocol of the baseline server.
    pub kind: ClientProtocol,
    /// Number of clients in the whole run.
    pub clients: usize,
    /// Share of the clients that this process runs.
    pub share: ClientShare,
    /// New connections per second in the whole run.
    pub ramp_per_s: f64,
    /// Item of each client; `{key}` stands for its key. Without `{key}` all records are due to each
    /// client.
    pub items: String,
    /// Record keys that are assigned to the clients.
    pub keys: Vec<String>,
    /// Seed of the assignment of keys to clients.
    pub seed: u64,
    /// Field schema, in order.
    pub fields: Vec<String>,
    /// Diff formats that sessions accept. Diffs are applied only to values that are read.
    #[serde(default)]
    pub diffs: DiffChoice,
    /// Compare the values of all clients with those of one client per key that accepts no diffs.
    #[serde(default)]
    pub verify_values: bool,
    /// Record latencies only of records whose timestamp has the prefix
    /// [`MARK`](crate::payload::MARK).
    pub marked_only: bool,
    /// Time records without a due time by their timestamp, the field `ts`.
    #[serde(default)]
    pub record_timestamps: bool,
    /// Interval of the report in the form of the published programs; `None`: no report.
    pub seed_report: Option<Duration>,
    /// Maximum time from the start of a connection to its active subscription.
    pub setup_timeout: Duration,
}

/// Trust in server certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsTrust {
    /// Not configured: `wss://` is rejected.
    #[default]
    Nobody,
    /// Certificate authorities, as the text of a PEM file.
    Authorities(String),
    /// Any certificate: the server is not authenticated.
    Anybody,
}

/// Protocol of the clients.
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
    /// Protocol of the baseline server: the client sends its key, the server `OK` and frames.
    Floor,
}

impl ClientsOptions {
    /// Options of `clients` clients at `server` that subscribe to `subscribe` in mode RAW, with 40
    /// keys.
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

    /// Options of `clients` clients of published scenario 2 at `server`, with the stamp field that
    /// the built-in plans map.
    pub fn scenario_2(server: impl Into<String>, clients: usize) -> Self {
        let mut subscribe = Scenario::Two.corrected();
        subscribe.fields.push("weir".to_owned());
        Self::new(server, &subscribe, clients)
    }

    /// Returns `true` if each client subscribes to the records of one key.
    pub fn is_keyed(&self) -> bool {
        self.items.contains(KEY_PLACEHOLDER)
    }

    /// Returns the number of connections that this process opens.
    pub fn local_clients(&self) -> usize {
        self.share.count(self.clients)
    }
}

/// Error of the simulated clients.
#[derive(Debug, Error)]
pub enum ClientsError {
    /// The server's address cannot be used.
    #[error("--url {server}: {reason}, write for example ws://127.0.0.1:8080")]
    Server {
        /// Address as given.
        server: String,
        /// Description of the problem.
        reason: String,
    },
    /// Each client needs a file descriptor.
    #[error(
        "{clients} clients need {needed} file descriptors, the limit is {allowed}: raise the hard \
             limit (ulimit -Hn), use fewer clients, or distribute them with --engine local"
    )]
    Descriptors {
        /// Number of requested clients.
        clients: usize,
        /// Number of file descriptors they need.
        needed: u64,
        /// Hard limit of file descriptors.
        allowed: u64,
    },
    /// No client could connect, or the server rejected all sessions.
    #[error("no client could subscribe at {server}: {reason}")]
    Unreachable {
        /// Addresses of the servers.
        server: String,
        /// Most frequent reason.
        reason: String,
    },
    /// The event loop failed.
    #[error("event loop of the clients failed: {0}")]
    Io(#[from] io::Error),
}

impl ClientsError {
    /// Returns the class of the error.
    pub fn fault(&self) -> ErrorClass {
        match self {
            Self::Server { .. } => ErrorClass::Usage,
            Self::Unreachable { .. } => ErrorClass::Target,
            Self::Descriptors { .. } | Self::Io(_) => ErrorClass::Instrument,
        }
    }
}

/// Runs the clients until the coordinator or the schedule ends them, and reports over `link`.
/// Returns the final summary.
///
/// # Errors
/// [`ClientsError`] if there was nothing to measure; `link` gets no event about it.
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
    let mut pool = client_pool::ClientPool::new(options, &target, link, Clock::start());
    ClientLoop::new(loop_options)?.run(&mut pool)?;
    pool.finish()
}

/// Returns the number of clients that the file descriptor limit of one process allows.
pub fn clients_per_process() -> usize {
    let allowed = descriptors_allowed().saturating_sub(DESCRIPTORS_SPARE);
    usize::try_from(allowed).unwrap_or(usize::MAX).max(1)
}

/// Number of keys of the published generator.
const KEYS: usize = 40;
/// Reserve for standard streams, poll, log files, the allocator and the resolver.
const DESCRIPTORS_SPARE: u64 = 64;

#[cfg(test)]
mod tests;
