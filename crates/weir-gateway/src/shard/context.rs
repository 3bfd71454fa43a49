//! The immutable state of all shards.

use std::sync::{Arc, OnceLock};

use weir_net::MailboxSender;
use weir_tlcp::server::{SessionConfig, SessionId};

use super::event::ShardEvent;
use super::session::AdapterSet;
use crate::admission::Admission;
use crate::compression::CompressionConfig;
use crate::config::UnknownNames;
use crate::connection::KafkaConnection;
use crate::limits::GatewayLimits;
use crate::simulator::{self, SimulatorConfig};

/// Immutable state shared by all shards.
#[derive(Debug)]
pub(crate) struct ShardContext {
    pub(crate) set_id: String,
    pub(crate) connections: Vec<Arc<KafkaConnection>>,
    pub(crate) session: SessionConfig,
    pub(crate) limits: GatewayLimits,
    pub(crate) unknown_names: UnknownNames,
    pub(crate) guard: Arc<Admission>,
    /// Response of the start item of the published load test simulator, if it is served.
    pub(crate) simulator: Option<SimulatorConfig>,
    pub(crate) compression: CompressionConfig,
    /// Maximum number of value bytes that each shard compares per second.
    pub(crate) diff_bytes_per_second: u64,
    /// Number of shards.
    pub(crate) shards: usize,
    /// Mailboxes of the shards, set once all of them exist.
    pub(crate) peers: OnceLock<Vec<MailboxSender<ShardEvent>>>,
}

impl ShardContext {
    /// Returns the adapter set with this name, if it is served.
    pub(super) fn adapter_set(&self, name: &str) -> Option<AdapterSet> {
        let has_start_item = self.simulator.is_some() && name == simulator::ADAPTER_SET;
        match name == self.set_id {
            true => Some(AdapterSet::Kafka),
            false => has_start_item.then_some(AdapterSet::StartItem),
        }
    }

    /// Returns the shard of a session, if it is another one than `own`.
    pub(super) fn remote_shard(&self, own: u16, id: &str) -> Option<u16> {
        let shard = SessionId::location_of(id)?.shard;
        let is_known = usize::from(shard) < self.peers.get()?.len();
        (is_known && shard != own).then_some(shard)
    }

    /// Returns the number of ingest workers of a connection that may have rows of an item from
    /// before a shard's interest.
    pub(super) fn workers_with_rows(&self, connection: u16) -> usize {
        match self.shards {
            0 | 1 => 0,
            _ => self.connections[usize::from(connection)].workers.len(),
        }
    }
}
