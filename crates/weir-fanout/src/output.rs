//! The interface between fan-out and the sessions with their connections.
//!
//! Fan-out is generic over the implementations, so that no delivery calls a function through a
//! pointer.

use weir_tlcp::server::TokenBucket;

use super::delivery_mode::QueuePolicy;
use super::keys::SessionKey;
use super::subscription::ItemSubscription;

/// Lines that are encoded once and shared by any number of clients.
pub trait SharedFrame {
    /// Creates a frame from complete lines, including line ends.
    fn of(lines: &[u8]) -> Self;

    /// Returns the number of bytes that a client must be able to read.
    fn bytes(&self) -> usize;

    /// Returns the number of bytes that the bandwidth limit counts.
    fn line_bytes(&self) -> usize;
}

/// A session as a receiver of updates.
pub trait Subscriber {
    /// Returns the maximum number of bytes of a frame that the client can read.
    fn line_max(&self) -> u32;

    /// Returns the bandwidth limit of the session.
    fn bandwidth_mut(&mut self) -> Option<&mut TokenBucket>;

    /// Returns a subscription of the session by its number.
    fn subscription(&self, sub_id: u32) -> Option<&ItemSubscription>;

    /// Returns a subscription of the session by its number, to change it.
    fn subscription_mut(&mut self, sub_id: u32) -> Option<&mut ItemSubscription>;
}

/// The open sessions of a shard.
pub trait SessionTable<S> {
    /// Returns an open session; `None` if it has ended.
    fn get_mut(&mut self, key: SessionKey) -> Option<&mut S>;
}

/// Result of sending a frame to a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOutcome {
    /// The session receives the frame, now or when it is bound again.
    Queued,
    /// The client lags, and the frame is deferrable: its values must be queued.
    Full,
    /// The send queue is full or the connection is closed; the client may bind again.
    Closed,
}

/// Way of frames to sessions, and the clock and timer of the shard.
pub trait Output {
    /// Session that receives frames.
    type Session: Subscriber;
    /// Encoded lines.
    type Frame: SharedFrame;

    /// Returns milliseconds of a monotonic clock.
    fn now_ms(&self) -> u64;

    /// Sets the timer after which [`crate::Delivery::on_session_timers`] must be called.
    fn set_timer(&mut self, at_ms: u64);

    /// Sends a frame with one data notification.
    fn send(
        &mut self,
        session: &mut Self::Session,
        frame: &Self::Frame,
        policy: QueuePolicy,
    ) -> SendOutcome;

    /// Makes the shard call [`crate::Delivery::catch_up`] when the session accepts frames again.
    fn notify_writable(&mut self, session: &Self::Session);

    /// Reports a frame of this length that is too long for its client.
    fn note_too_long(&mut self, session: &Self::Session, bytes: usize);
}
