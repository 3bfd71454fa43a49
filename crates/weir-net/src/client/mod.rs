//! Single-threaded event loop for thousands of outgoing connections: connect ramp, one shared read
//! buffer, bounded write queues. A [`ClientHandler`] interprets the bytes.

mod connection;
mod disconnect_reason;
mod event_loop;
mod sources;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use rustls::pki_types::ServerName;

use crate::tls::ClientTls;

pub use disconnect_reason::DisconnectReason;
pub use event_loop::{ClientIo, ClientLoop};
pub use sources::AddressSource;

/// Options of the event loop: servers, number of connections, ramp.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The first server.
    pub server: SocketAddr,
    /// Further servers; connections are distributed among all servers in turn.
    pub more_servers: Vec<SocketAddr>,
    /// Number of connections to open; they are numbered from 0.
    pub connections: usize,
    /// New connections per second.
    pub ramp_per_s: f64,
    /// Maximum number of concurrent connection attempts. It is below the usual accept backlog, so
    /// that a slow server slows the ramp instead of losing handshakes. The handler can slow it
    /// further.
    pub connecting_max: usize,
    /// Timeout of one attempt.
    pub connect_timeout: Duration,
    /// Maximum number of unsent bytes of one connection.
    pub write_queue_bytes_max: usize,
    /// Interval of [`ClientHandler::on_tick`].
    pub tick: Duration,
    /// Local addresses of the connections.
    pub sources: AddressSource,
    /// TLS per server: that of the first server, then of further ones, in their order.
    pub tls: Vec<Option<ServerTls>>,
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
    /// Returns defaults for `connections` connections to `server`: 1000 connections per second, 256
    /// concurrent attempts, 10 s connect timeout, 64 KiB of write queue, a tick of 20 ms, loopback
    /// addresses for a loopback server.
    pub fn new(server: SocketAddr, connections: usize) -> Self {
        Self {
            server,
            more_servers: Vec::new(),
            connections,
            ramp_per_s: 1000.0,
            connecting_max: 256,
            connect_timeout: Duration::from_secs(10),
            write_queue_bytes_max: 64 * 1024,
            tick: Duration::from_millis(20),
            sources: AddressSource::for_target(server),
            tls: Vec::new(),
        }
    }

    /// Returns the server of connection `conn`.
    fn server_of(&self, conn: usize) -> SocketAddr {
        match conn % (1 + self.more_servers.len()) {
            0 => self.server,
            further => self.more_servers[further - 1],
        }
    }

    /// Creates the TLS session of connection `conn`, if its server uses TLS.
    fn session_of(&self, conn: usize) -> io::Result<Option<Box<tls::TlsSession>>> {
        let tls = self.tls.get(conn % (1 + self.more_servers.len()));
        let Some(tls) = tls.and_then(Option::as_ref) else {
            return Ok(None);
        };
        let session = tls.trust.connect(tls.name.clone());
        session
            .map(|session| Some(tls::TlsSession::new(session)))
            .map_err(io::Error::other)
    }
}

/// Callbacks for the connections. All calls come from the thread that runs the loop.
pub trait ClientHandler {
    /// Called when connection `conn` is open.
    fn on_connected(&mut self, io: &mut ClientIo<'_>, conn: usize);

    /// Called when bytes arrive; `read_at` was taken right after the read that returned them.
    fn on_data(&mut self, io: &mut ClientIo<'_>, conn: usize, bytes: &[u8], read_at: Instant);

    /// Called when a connection has ended or could not be opened, except by [`ClientIo::close`].
    fn on_closed(&mut self, io: &mut ClientIo<'_>, conn: usize, reason: DisconnectReason);

    /// Called every [`ClientOptions::tick`], later if the loop is busy; `Break` ends the loop.
    fn on_tick(&mut self, io: &mut ClientIo<'_>, now: Instant) -> ControlFlow<()>;

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
