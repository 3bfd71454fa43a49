//! The immutable state of all shards.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_fanout::{Retention, RowTableConfig};
use weir_tlcp::request::Mode;
use weir_tlcp::server::SessionConfig;

use super::placement::Placement;
use super::session::AdapterSet;
use crate::adapter::{AdapterAccess, ShardInboxes};
use crate::admission::Admission;
use crate::compression::CompressionConfig;
use crate::config::UnknownNames;
use crate::limits::GatewayLimits;
use crate::messages::Messages;
use crate::session_handles::SessionHandles;
use crate::simulator::{self, SimulatorConfig};
use weir_access::Authenticator;
use weir_access::audit::AuditLog;
use weir_ingest::KafkaConnection;

#[derive(Debug)]
pub(crate) struct ShardContext {
    pub(crate) set_id: String,
    pub(crate) connections: Vec<Arc<KafkaConnection>>,
    /// Names of fields found in records, for connections that take any field.
    pub(crate) example_fields: BTreeMap<String, Vec<String>>,
    pub(crate) session: SessionConfig,
    pub(crate) limits: GatewayLimits,
    pub(crate) unknown_names: UnknownNames,
    pub(crate) admission: Arc<Admission>,
    /// `None`: no audit log is written.
    pub(crate) audit: Option<Arc<AuditLog>>,
    pub(crate) handles: SessionHandles,
    /// `None`: clients are not identified and may do everything.
    pub(crate) auth: Option<Arc<Authenticator>>,
    /// `None`: no remote adapter is asked.
    pub(crate) adapter: Option<AdapterAccess>,
    pub(crate) simulator: Option<SimulatorConfig>,
    /// `None`: client messages are refused.
    pub(crate) messages: Option<Arc<Messages>>,
    pub(crate) compression: CompressionConfig,
    /// Maximum number of value bytes that each shard compares per second.
    pub(crate) diff_bytes_per_second: u64,
    pub(crate) shards: usize,
    pub(crate) placement: Placement,
    /// Mailboxes of the shards, set once all of them exist.
    pub(crate) inboxes: ShardInboxes,
}

impl ShardContext {
    pub(super) fn adapter_set(&self, name: &str) -> Option<AdapterSet> {
        let has_start_item = self.simulator.is_some() && name == simulator::ADAPTER_SET;
        match name == self.set_id {
            true => Some(AdapterSet::Kafka),
            false => has_start_item.then_some(AdapterSet::StartItem),
        }
    }

    /// Returns the data that a subscription needs, and the number of ingest workers that may have
    /// it from before the shard's interest.
    pub(super) fn retention(&self, mode: Mode, connection: u16) -> Retention {
        let connection = &self.connections[usize::from(connection)];
        let snapshots = connection.config.snapshots;
        let workers = match (self.shards, snapshots) {
            (0 | 1, None) => 0,
            _ => connection.workers.len(),
        };
        let mapping = &connection.config.mapping;
        match mode {
            Mode::Command => {
                let rules = RowTableConfig {
                    mode: mapping.command_mode(),
                    fields: mapping.command_fields(),
                    keys_max: self.limits.command_rows,
                };
                Retention::Rows(rules, workers)
            }
            Mode::Distinct => {
                let length = snapshots.map(|snapshots| snapshots.distinct_length);
                let length = length.unwrap_or(self.limits.distinct_snapshot);
                Retention::History(length, workers)
            }
            Mode::Raw | Mode::Merge => Retention::Values,
        }
    }
}
