//! Simulates tens of thousands of clients in one event loop: TLCP sessions over WebSocket, plain
//! sockets of the baseline server, or clients of other servers. Every update is parsed, timed and
//! checked.

mod client_pool;
mod descriptors;
mod diff_choice;
mod items;
mod json;
pub mod mode_name;
mod options;
mod reference_values;
pub mod scenario;
mod servers;
mod session;
mod shared;
pub mod simulator_file;
mod target;
mod verify;

use std::io;

use weir_net::client::{self, ClientOptions};
pub use weir_tlcp::Mode;

use crate::clock::Clock;
use crate::delivery::DeliverySummary;
use crate::error::{LoadError, Result};
use crate::worker::CoordinatorChannel;

pub use descriptors::{descriptors_allowed, raise_descriptors};
pub use diff_choice::DiffChoice;
pub use items::assign_keys;
pub use json::{ITEM_PLACEHOLDER, JsonClients, JsonProtocol};
pub use options::{ClientProtocol, ClientsOptions, TlsTrust};
pub use scenario::{KEY_PLACEHOLDER, Scenario, Subscribe};
pub(crate) use servers::resolve_server;

/// Runs the clients until the coordinator or the schedule ends them, and reports over `link`.
/// Returns the final summary.
///
/// # Errors
/// [`LoadError`] if there was nothing to measure; `link` gets no event about it.
pub fn run(options: &ClientsOptions, link: &CoordinatorChannel) -> Result<DeliverySummary> {
    link.events.hello(options.kind.role());
    let clients = options.share.numbers(options.clients).len();
    let needed = clients as u64 + DESCRIPTORS_SPARE;
    let allowed = raise_descriptors(needed).map_err(loop_failed)?;
    if needed > allowed {
        return Err(LoadError::Descriptors(clients, needed, allowed));
    }
    let servers = servers::local_servers(options)?;
    let mut loop_options = ClientOptions::new(servers.addresses, clients);
    loop_options.ramp_per_s = options.ramp_per_s / options.share.of.max(1) as f64;
    let target = target::RequestTexts::new(options, &servers.authorities);
    let places = servers.authorities.iter().cloned().zip(servers.paths);
    let json = target.json_messages(&places.collect::<Vec<_>>())?;
    let mut pool = client_pool::ClientPool::new(&target, json, link, Clock::start());
    client::run(loop_options, &mut pool).map_err(loop_failed)?;
    pool.finish()
}

fn loop_failed(reason: io::Error) -> LoadError {
    LoadError::System("event loop of the clients failed", reason)
}

/// Returns the number of clients that the file descriptor limit of one process allows.
pub fn clients_per_process() -> usize {
    let allowed = descriptors_allowed().saturating_sub(DESCRIPTORS_SPARE);
    usize::try_from(allowed).unwrap_or(usize::MAX).max(1)
}

/// Reserve for standard streams, poll, log files, the allocator and the resolver.
const DESCRIPTORS_SPARE: u64 = 64;

#[cfg(test)]
mod tests;
