//! How other threads use a connection, so that tests can replace it.

use std::fmt;

use weir_identity::ari::{AdapterRequest, NotificationResult};

use crate::metrics::AdapterMetrics;
use crate::protocol::{NotificationTicket, WhileDown};

/// Sends requests to the adapter from any thread, without waiting.
pub trait AdapterPort<T>: fmt::Debug + Send + Sync {
    /// Sends a request; the sink gets the outcome. Returns `false` if too many requests wait for
    /// the thread: then there is no outcome.
    #[must_use]
    fn request(&self, request: AdapterRequest, token: T, while_down: WhileDown) -> bool;

    /// Sends `NTC` or `NSC`; it is queued while no adapter is connected.
    fn notify_close(&self, request: AdapterRequest);

    /// Answers a notification.
    fn respond(&self, ticket: NotificationTicket, result: NotificationResult);

    /// Returns the counters.
    fn metrics(&self) -> &AdapterMetrics;
}
