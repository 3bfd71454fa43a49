//! Network layer: event loops, timers, buffers, HTTP/1.1 and WebSocket framing.
//!
//! [`event_loop`] and [`stream`] are what all event loops have in common. [`server`] handles the
//! gateway's clients, one loop per core; [`client`] thousands of outgoing connections. The proxy
//! has its own handler. This crate does not interpret the payload (TLCP, Kafka).

pub mod admin;
pub mod client;
pub mod cpu;
pub mod descriptors;
pub mod event_loop;
pub mod http1;
pub mod listener;
mod lock;
pub mod log;
mod mailbox;
pub mod memory;
pub mod otlp;
pub mod proxy_header;
pub mod server;
pub mod stream;
pub mod take_over;
mod timer;
pub mod tls;
pub mod watchdog;
pub mod websocket;

pub use crossbeam_channel::SendTimeoutError as PostError;
pub use lock::lock;
pub use mailbox::MailboxSender;
