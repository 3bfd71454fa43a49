//! Requests of shards to the remote adapter, and what comes back.

use std::sync::Arc;

use weir_adapter::{AdapterOutcome, AdapterPort, NotificationTicket, UnavailablePolicy};
use weir_identity::ari::{AdapterMethod, AdapterNotification};

/// Request of a shard.
#[derive(Debug)]
pub(crate) struct AdapterToken {
    pub(crate) shard: u16,
    pub(crate) call: AdapterCall,
}

/// Number that the shard has given to what the request is about.
#[derive(Debug, Clone, Copy)]
pub(crate) enum AdapterCall {
    /// The user of a request for a session.
    User(u64),
    /// A new session.
    Session(u64),
    /// A new subscription.
    Subscription(u64, AdapterMethod),
    /// A client message.
    Message(usize),
}

/// Event for a shard.
#[derive(Debug)]
pub(crate) enum AdapterEvent {
    Complete(AdapterCall, AdapterOutcome),
    Notified(NotificationTicket, AdapterNotification),
    /// Another session with this ID must end for a new one of the same user.
    Conflict(String),
}

/// Means to send requests.
pub(crate) type Adapter = Arc<dyn AdapterPort<AdapterToken>>;

/// The adapter, as shards use it.
#[derive(Debug, Clone)]
pub(crate) struct AdapterAccess {
    pub(crate) port: Adapter,
    pub(crate) unavailable: UnavailablePolicy,
    /// Neither tokens nor certificates are configured: the adapter alone identifies clients.
    pub(crate) identifies: bool,
}
