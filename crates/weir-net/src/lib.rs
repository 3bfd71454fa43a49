//! Network layer: event loops, timers, buffers, HTTP/1.1 and WebSocket framing.
//!
//! [`server`] has the event loop for the gateway's clients, one per core. [`client`] has an event
//! loop for thousands of outgoing connections. This crate does not interpret the payload (TLCP,
//! Kafka).

pub mod admin;
pub mod client;
pub mod descriptors;
pub mod http1;
pub mod listener;
pub mod log;
mod mailbox;
pub mod memory;
mod send_queue;
pub mod server;
pub mod timer;
pub mod tls;
pub mod watchdog;
pub mod websocket;

pub use mailbox::{MailboxReceiver, MailboxSender, PostError, mailbox};
