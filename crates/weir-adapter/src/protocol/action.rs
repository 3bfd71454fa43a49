//! Results of inputs.

use weir_identity::ari::AdapterNotification;

use crate::outcome::AdapterOutcome;

/// Identifies a notification in its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NotificationTicket {
    pub(super) generation: u64,
    pub(super) number: u64,
}

/// Result of an input.
#[derive(Debug)]
pub enum ProtocolAction<T> {
    /// A request is complete.
    Complete(T, AdapterOutcome),
    /// The adapter wants a session or subscription to end; answer with
    /// [`super::AdapterProtocol::respond`].
    Notify(NotificationTicket, AdapterNotification),
    /// An adapter is ready.
    Ready,
    /// The connection must be closed after the output is sent.
    Close,
}
