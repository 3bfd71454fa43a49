//! A single-threaded event loop for thousands of outgoing connections: connect ramp, one shared
//! read buffer, bounded write queues. What the bytes mean is the [`Handler`]'s business.

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

/// Where to connect, how many times and how fast.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    /// The server.
    pub server: SocketAddr,
    /// Further servers: connection `n` goes to number `n` of all of them, in turn.
    pub more_servers: Vec<SocketAddr>,
    /// Connections to open; they are numbered from 0.
    pub connections: usize,
    /// New connections per second.
    pub ramp_per_s: f64,
    /// Connection attempts under way at once; below the usual accept backlog, so that a slow server
    /// slows the ramp instead of losing handshakes. The handler may hold it back further.
    pub connecting_max: usize,
    /// How long one attempt may take.
    pub connect_timeout: Duration,
    /// Bytes one connection may have waiting to be written.
    pub write_queue_bytes_max: usize,
    /// How often [`Handler::on_tick`] is called at least.
    pub tick: Duration,
    /// Addresses to connect from.
    pub sources: AddressSource,
    /// TLS with the servers for which it is given: the server, then further ones, in their order.
    pub tls: Vec<Option<ServerTls>>,
}

/// How to be sure of a server.
#[derive(Debug, Clone)]
pub struct ServerTls {
    /// What is trusted.
    pub trust: ClientTls,
    /// The name its certificate must be for, see [`ClientTls::server_name`].
    pub name: ServerName<'static>,
}

impl ClientOptions {
    /// Defaults for `connections` connections to `server`: 1000 a second, 256 attempts at once,
    /// 10 s each, 64 KiB of write queue, a tick of 20 ms, loopback sources where they help.
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

    /// The server of connection `conn`.
    fn server_of(&self, conn: usize) -> SocketAddr {
        match conn % (1 + self.more_servers.len()) {
            0 => self.server,
            further => self.more_servers[further - 1],
        }
    }

    /// The TLS session of connection `conn`, if its server has one.
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

/// What happens on the connections. All calls come from the one thread that runs the loop.
pub trait ClientHandler {
    /// Connection `conn` is open.
    fn on_connected(&mut self, io: &mut ClientIo<'_>, conn: usize);

    /// Bytes arrived; `read_at` was taken right after the read that returned them.
    fn on_data(&mut self, io: &mut ClientIo<'_>, conn: usize, bytes: &[u8], read_at: Instant);

    /// The connection has ended, or could not be opened, other than by [`Io::close`].
    fn on_closed(&mut self, io: &mut ClientIo<'_>, conn: usize, reason: DisconnectReason);

    /// Called every [`ClientOptions::tick`], later if the loop is busy; `Break` ends the loop.
    fn on_tick(&mut self, io: &mut ClientIo<'_>, now: Instant) -> ControlFlow<()>;

    /// Whether the ramp may open another connection now, with `opened` started so far.
    fn may_connect(&self, opened: usize) -> bool {
        let _ = opened;
        true
    }
}

/// How busy the loop has been since it started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LoopUtilization {
    /// Nanoseconds outside of the wait for events.
    pub busy_ns: u64,
    /// Nanoseconds in all.
    pub total_ns: u64,
    /// The longest stretch without a wait: what a byte may have waited before it was read.
    pub turn_max_ns: u64,
}

impl LoopUtilization {
    /// The busy share between an earlier reading and this one, 0 to 1.
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
