//! Simulated clients by the ten thousand in one event loop: TLCP sessions over WebSocket, or plain
//! sockets of the floor server. Every update is parsed, timed and checked.

mod descriptors;
mod fields;
mod fleet;
mod items;
pub(crate) mod meter;
mod session;
mod target;
mod verify;

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::time::Duration;

use thiserror::Error;
use weir_net::client::{ClientLoop, ClientOptions};
pub use weir_tlcp::Mode;

use crate::clock::Clock;
use crate::delivery::DeliverySummary;
use crate::worker::Link;
use crate::worker::protocol::Role;

pub use descriptors::{descriptors_allowed, raise_descriptors};
pub use fields::FieldMap;
pub use items::{KEY_PLACEHOLDER, assign_keys};

/// What the clients do.
#[derive(Debug, Clone)]
pub struct ClientsOptions {
    /// `ws://host:port`, also just `host:port`.
    pub server: String,
    /// TLCP or floor.
    pub kind: Kind,
    /// Number of clients.
    pub clients: usize,
    /// New connections per second.
    pub ramp_per_s: f64,
    /// Item of each client; `{key}` stands for its key.
    pub items: String,
    /// Number of keys the clients are spread over.
    pub keys: usize,
    /// Decides which client has which key.
    pub seed: u64,
    /// Field schema, in order.
    pub fields: Vec<String>,
    /// Longest time from the start of a connection to its active subscription.
    pub setup_timeout: Duration,
}

/// What the clients speak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// TLCP over WebSocket.
    Tlcp {
        /// Adapter set.
        adapter_set: String,
        /// Data adapter of the subscription.
        data_adapter: Option<String>,
        /// Subscription mode.
        mode: Mode,
    },
    /// The floor's line: a key up, `OK` and frames down.
    Floor,
}

impl ClientsOptions {
    /// `clients` clients of seed scenario 2 at `server`, with the stamp field the built-in plans map.
    pub fn scenario_2(server: impl Into<String>, clients: usize) -> Self {
        Self {
            server: server.into(),
            kind: Kind::Tlcp {
                adapter_set: "KafkaConnector".to_owned(),
                data_adapter: Some("QuickStart".to_owned()),
                mode: Mode::Raw,
            },
            clients,
            ramp_per_s: 1000.0,
            items: format!("ltest-[key={KEY_PLACEHOLDER}]"),
            keys: 40,
            seed: 1,
            fields: ["key", "value", "ts", "partition", "offset", "weir"]
                .map(str::to_owned)
                .into(),
            setup_timeout: Duration::from_secs(30),
        }
    }
}

/// Why clients could not run.
#[derive(Debug, Error)]
pub enum ClientsError {
    /// The server's address cannot be used.
    #[error("--server {server}: {reason}, write for example ws://127.0.0.1:8080")]
    Server {
        /// As given.
        server: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Each client needs a file descriptor.
    #[error(
        "{clients} clients need {needed} file descriptors, this process may have {allowed}: raise \
         the hard limit (ulimit -Hn) or take fewer clients"
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

/// Runs the clients until the coordinator or the schedule ends them, reporting over `link`; returns
/// what was reported last.
///
/// # Errors
/// [`ClientsError`] if there was nothing to measure; the link has not been told.
pub fn run(options: &ClientsOptions, link: &Link) -> Result<DeliverySummary, ClientsError> {
    let role = match options.kind {
        Kind::Tlcp { .. } => Role::Clients,
        Kind::Floor => Role::FloorClients,
    };
    link.events.hello(role);
    let needed = options.clients as u64 + DESCRIPTORS_SPARE;
    let allowed = raise_descriptors(needed)?;
    if needed > allowed {
        let clients = options.clients;
        return Err(ClientsError::Descriptors {
            clients,
            needed,
            allowed,
        });
    }
    let (authority, address) = resolve(&options.server)?;
    let mut loop_options = ClientOptions::new(address, options.clients);
    loop_options.ramp_per_s = options.ramp_per_s;
    let target = target::Target::new(options, authority);
    let mut fleet = fleet::Fleet::new(options, &target, link, Clock::start());
    ClientLoop::new(loop_options)?.run(&mut fleet)?;
    fleet.finish()
}

/// The authority for the `Host` header and the first address it resolves to.
fn resolve(server: &str) -> Result<(String, SocketAddr), ClientsError> {
    let refused = |reason: &str| ClientsError::Server {
        server: server.to_owned(),
        reason: reason.to_owned(),
    };
    let authority = server.strip_prefix("ws://").unwrap_or(server);
    if authority.starts_with("wss://") {
        return Err(refused("TLS is not supported here"));
    }
    let authority = authority.trim_end_matches('/');
    if authority.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control()) {
        return Err(refused("neither path nor blanks are allowed"));
    }
    let mut addresses = authority
        .to_socket_addrs()
        .map_err(|error| refused(&error.to_string()))?;
    let address = addresses.next().ok_or_else(|| refused("no address"))?;
    Ok((authority.to_owned(), address))
}

/// Standard streams, poll, log files and what the allocator or a resolver may open.
const DESCRIPTORS_SPARE: u64 = 64;

#[cfg(test)]
mod tests;
