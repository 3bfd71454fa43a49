//! Sockets without meaning: event loops, timers, buffers, HTTP/1.1 and WebSocket framing.
//!
//! [`server`] is one event loop per core for the gateway's clients, [`client`] one loop for thousands
//! of outgoing connections. What flows through them (TLCP, Kafka) is not known here.

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
