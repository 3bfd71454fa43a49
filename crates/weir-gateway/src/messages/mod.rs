//! Client messages: rules, limits, and the way to Kafka (docs/client-messages.md).
//!
//! Event loops put messages into queues, one per Kafka connection. A thread per connection writes
//! them with a Kafka client. Its results come back through inboxes, one per event loop. All of it
//! is bounded by the bytes of messages without an outcome, so no queue has a limit of its own.

mod config;
mod counters;
mod in_flight;
mod results;
mod service;
mod user_rates;
mod writer;

pub use self::config::{MessageConfig, MessageLimits};
pub(crate) use self::counters::MessageOutcome;
pub(crate) use self::in_flight::InFlight;
pub(crate) use self::results::MessageResult;
#[cfg(test)]
pub(crate) use self::service::OutgoingMessage;
pub(crate) use self::service::{MessageParts, MessageQueue, MessageSender, Messages};
pub(crate) use self::writer::{Waker, start};
