//! Properties of a connection and of a request.

use weir_identity::ari::Parameter;

use crate::config::CloseRecovery;
use crate::credentials::AdapterUser;

/// Properties of a connection.
#[derive(Debug, Clone)]
pub struct ProtocolOptions {
    /// Users as which an adapter may connect; empty for any.
    pub users: Vec<AdapterUser>,
    /// Parameters of the first request besides those of the protocol.
    pub parameters: Vec<Parameter>,
    /// Time for a reply in milliseconds.
    pub timeout_ms: u64,
    /// Time without input in milliseconds.
    pub activity_timeout_ms: u64,
    /// Most requests that wait for replies.
    pub pending_max: usize,
    /// Close notifications that a new connection gets again.
    pub close_recovery: CloseRecovery,
}

/// Fate of a request while no adapter is connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhileDown {
    /// It fails at once.
    Fail,
    /// It waits for a connection, up to its deadline. If the connection is lost before the reply, a
    /// request that changes nothing is sent again.
    Wait,
}
