//! How outcomes leave the thread of the connection.

use weir_identity::ari::AdapterNotification;

use crate::outcome::AdapterOutcome;
use crate::protocol::NotificationTicket;

/// Receiver of outcomes and notifications, on the thread of the connection. It may wait for a
/// moment, but replies are not read meanwhile.
pub trait AdapterSink<T>: Send + 'static {
    /// Receives the outcome of a request.
    fn complete(&mut self, token: T, outcome: AdapterOutcome);
    /// Receives a request to end a session or subscription. The adapter waits for
    /// [`crate::AdapterPort::respond`].
    fn notified(&mut self, ticket: NotificationTicket, notification: AdapterNotification);
}
