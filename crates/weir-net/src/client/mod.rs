//! Single-threaded event loop for thousands of outgoing connections: connect ramp, one shared read
//! buffer, bounded write queues. A [`ClientHandler`] interprets the bytes.

mod connection;
mod event_loop;

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;
use thiserror::Error;

use crate::limited;
use crate::tls::ClientTls;

pub use event_loop::{ClientIo, run};

/// Reason for the end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DisconnectReason {
    /// The connection could not be opened.
    #[error("connect failed: {0}")]
    ConnectFailed(io::ErrorKind),
    /// No response within 10 seconds.
    #[error("connect timed out")]
    ConnectTimeout,
    /// The peer closed the connection.
    #[error("closed by the server")]
    ByPeer,
    /// Reading or writing failed, as after a reset.
    #[error("connection failed: {0}")]
    Failed(io::ErrorKind),
    /// The TLS handshake failed, or the peer violated the protocol.
    #[error("TLS failed: {0}")]
    Tls(&'static str),
    /// The peer does not read and the write queue is full.
    #[error("write queue full")]
    WriteQueueFull,
}

impl From<io::Error> for DisconnectReason {
    fn from(error: io::Error) -> Self {
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
        let Some(tls) = tls else {
            return Self::Failed(error.kind());
        };
        limited!(debug, "TLS failed", error = %tls, "TLS session failed");
        Self::Tls(match tls {
            rustls::Error::InvalidCertificate(_) => "the server's certificate is not trusted",
            rustls::Error::AlertReceived(_) => "alert received from the server",
            rustls::Error::InvalidMessage(_) => "the server does not use TLS",
            _ => "the server violated the protocol",
        })
    }
}

/// Options of the event loop: servers, number of connections, ramp.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// Servers, at least one, with their TLS; connections are distributed among them in turn.
    pub servers: Vec<(SocketAddr, Option<ServerTls>)>,
    /// Number of connections to open; they are numbered from 0.
    pub connections: usize,
    /// New connections per second.
    pub ramp_per_s: f64,
    /// Maximum number of unsent bytes of one connection.
    pub write_queue_bytes_max: usize,
    /// Interval of [`ClientHandler::on_tick`].
    pub tick: Duration,
}

/// TLS parameters of a server.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// Trusted certificates.
    pub trust: ClientTls,
    /// Name that the certificate must be valid for, see [`ClientTls::server_name`].
    pub name: ServerName<'static>,
}

impl ClientOptions {
    /// Returns defaults for `connections` connections to `servers`: 1000 connections per second, 64
    /// KiB of write queue, a tick of 20 ms.
    pub fn new(servers: Vec<(SocketAddr, Option<ServerTls>)>, connections: usize) -> Self {
        Self {
            servers,
            connections,
            ramp_per_s: 1000.0,
            write_queue_bytes_max: 64 * 1024,
            tick: Duration::from_millis(20),
        }
    }
}

/// Callbacks for the connections. All calls come from the thread that runs the loop.
pub trait ClientHandler {
    /// Called when connection `conn` is open.
    fn on_connected(&mut self, io: &mut ClientIo, conn: usize);

    /// Called when bytes arrive; `read_at` was taken right after the read that returned them.
    fn on_data(&mut self, io: &mut ClientIo, conn: usize, bytes: &[u8], read_at: Instant);

    /// Called when a connection has ended or could not be opened, except by [`ClientIo::close`].
    fn on_closed(&mut self, io: &mut ClientIo, conn: usize, reason: DisconnectReason);

    /// Called every [`ClientOptions::tick`], later if the loop is busy; `Break` ends the loop.
    fn on_tick(&mut self, io: &mut ClientIo, now: Instant) -> ControlFlow<()>;

    /// Returns `true` if another connection may be started now, after `opened` ones.
    fn may_connect(&self, opened: usize) -> bool {
        let _ = opened;
        true
    }
}

/// Utilization of the event loop since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoopUtilization {
    /// Nanoseconds outside the wait for events.
    pub busy_ns: u64,
    /// Total nanoseconds.
    pub total_ns: u64,
    /// Nanoseconds of the longest iteration, the maximum delay of a read.
    pub iteration_max_ns: u64,
}

impl LoopUtilization {
    /// Returns the busy share between an earlier reading and this one, 0 to 1.
    pub fn share_since(self, earlier: Self) -> f64 {
        let total = self.total_ns.saturating_sub(earlier.total_ns);
        if total == 0 {
            return 0.0;
        }
        self.busy_ns.saturating_sub(earlier.busy_ns) as f64 / total as f64
    }
}

#[cfg(test)]
mod tests;
