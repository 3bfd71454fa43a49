//! One outgoing connection: socket, state and write queue.

use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use super::{ClientOptions, DisconnectReason};
use crate::stream::{SendQueue, SocketStream, TlsBuffers, connect_result};

#[derive(Debug)]
pub(super) struct ClientConnection {
    pub(super) stream: SocketStream,
    /// Start of the connection attempt; `None` once it is complete.
    pub(super) connecting_since: Option<Instant>,
    /// Bytes that the socket has not accepted.
    queue: SendQueue,
    /// The socket is registered for writability, in addition to readability.
    awaits_writable: bool,
}

impl ClientConnection {
    /// Starts connection number `conn` to one of the servers. Does not wait for its completion.
    pub(super) fn start(
        options: &ClientOptions,
        conn: usize,
        registry: &Registry,
        now: Instant,
    ) -> io::Result<Self> {
        let servers = &options.servers;
        let (server, tls) = &servers[conn % servers.len()];
        let tls = tls.as_ref().map(|tls| (&tls.trust, tls.name.clone()));
        let domain = Domain::for_address(*server);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(source) = source_address(servers[0].0, conn) {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        match socket.connect(&(*server).into()) {
            Err(error) if !is_in_progress(&error) => return Err(error),
            _ => {}
        }
        let mut stream = TcpStream::from_std(socket.into());
        let both = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut stream, Token(conn), both)?;
        Ok(Self {
            stream: SocketStream::connecting(stream, tls)?,
            connecting_since: Some(now),
            queue: SendQueue::default(),
            awaits_writable: true,
        })
    }

    /// Completes the connection attempt. Returns `Ok(false)` if it is still in progress.
    pub(super) fn finish_connect(&mut self) -> Result<bool, DisconnectReason> {
        let connected = connect_result(self.stream.socket());
        let connected = connected.map_err(|error| DisconnectReason::ConnectFailed(error.kind()))?;
        if connected {
            self.connecting_since = None;
        }
        Ok(connected)
    }

    /// Writes `bytes`, queueing what the socket does not accept. Returns the number of bytes that
    /// it accepted, including TLS.
    pub(super) fn send(
        &mut self,
        bytes: &[u8],
        queue_bytes_max: usize,
        conn: usize,
        registry: &Registry,
        buffers: &mut TlsBuffers,
    ) -> Result<usize, DisconnectReason> {
        let bytes = [IoSlice::new(bytes)];
        let mut sent = 0;
        if self.connecting_since.is_some() {
            self.queue.push_copy(&bytes, 0);
        } else {
            let flushed = self.stream.send(&bytes, &mut self.queue, buffers)?;
            sent = flushed.bytes;
            self.update_interest(conn, registry)?;
        }
        if self.queue.bytes() > queue_bytes_max {
            return Err(DisconnectReason::WriteQueueFull);
        }
        Ok(sent)
    }

    /// Writes queued bytes and TLS protocol messages to a writable socket. Returns the number of
    /// bytes that it accepted.
    pub(super) fn flush(
        &mut self,
        conn: usize,
        registry: &Registry,
        buffers: &mut TlsBuffers,
    ) -> Result<usize, DisconnectReason> {
        let flushed = self.stream.flush(&mut self.queue, buffers, false)?;
        self.update_interest(conn, registry)?;
        Ok(flushed.bytes)
    }

    /// Registers for writability only while bytes are queued. Otherwise each TCP acknowledgement
    /// would wake the event loop.
    fn update_interest(&mut self, conn: usize, registry: &Registry) -> io::Result<()> {
        let needs_writable = !self.queue.is_empty() || self.stream.wants_write();
        if needs_writable == std::mem::replace(&mut self.awaits_writable, needs_writable) {
            return Ok(());
        }
        let interest = match needs_writable {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::READABLE,
        };
        registry.reregister(self.stream.socket(), Token(conn), interest)
    }
}

fn is_in_progress(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
        || error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error())
}

/// Connections per source address: fewer than the 28,232 ports of Linux's default range, which
/// leaves some for other processes.
const CONNECTIONS_PER_SOURCE: usize = 20_000;

/// Returns the local address of connection number `conn`. For an IPv4 loopback server it is
/// `127.net.0.1`, then `127.net.0.2` and so on, each for [`CONNECTIONS_PER_SOURCE`] connections.
/// `net` follows from the process id, so ports that an earlier process left in TIME_WAIT rarely
/// matter. For other servers, `None` leaves the choice to the operating system.
fn source_address(server: SocketAddr, conn: usize) -> Option<IpAddr> {
    let IpAddr::V4(ip) = server.ip() else {
        return None;
    };
    // The remainder fits into a byte; 0 and 255 are not used.
    let net = (1 + std::process::id() % 254) as u8;
    ip.is_loopback().then(|| loopback(net, conn).into())
}

fn loopback(net: u8, conn: usize) -> Ipv4Addr {
    let host = 1 + conn / CONNECTIONS_PER_SOURCE;
    let [.., high, low] = (host as u64).to_be_bytes();
    Ipv4Addr::new(127, net, high, low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_address_changes_before_ports_run_out() {
        let at = |conn| loopback(7, conn).to_string();
        assert_eq!(at(0), "127.7.0.1");
        assert_eq!(at(19_999), "127.7.0.1");
        assert_eq!(at(20_000), "127.7.0.2");
        assert_eq!(at(20_000 * 255), "127.7.1.0");
        let of = |server: &str| source_address(server.parse().unwrap(), 3);
        assert_eq!(of("[::1]:1"), None);
        assert_eq!(of("10.1.2.3:1"), None);
        assert!(of("127.0.0.1:1").is_some());
    }
}
