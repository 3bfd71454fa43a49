//! One outgoing connection: socket, state and write queue.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use super::{ClientOptions, DisconnectReason, sources};
use crate::stream::{SendQueue, SocketStream, TlsBuffers, connect_result};

/// An outgoing connection.
#[derive(Debug)]
pub(super) struct ClientConnection {
    pub(super) stream: SocketStream,
    /// Start of the connection attempt; `None` once it is complete.
    pub(super) connecting_since: Option<Instant>,
    /// Bytes that the socket has not accepted.
    queue: SendQueue,
    /// The socket is registered for both directions.
    awaits_writable: bool,
}

impl ClientConnection {
    /// Starts to connect from the source address of this connection.
    pub(super) fn start(
        options: &ClientOptions,
        conn: usize,
        registry: &Registry,
        now: Instant,
    ) -> io::Result<Self> {
        let (server, tls) = options.server_of(conn);
        let tls = tls.map(|tls| (&tls.trust, tls.name.clone()));
        let domain = Domain::for_address(server);
        let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(source) = sources::address(options.server, conn) {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        match socket.connect(&server.into()) {
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
        let socket = self.stream.socket();
        match connect_result(socket) {
            Ok(true) => self.connecting_since = None,
            Ok(false) => return Ok(false),
            Err(error) => return Err(DisconnectReason::ConnectFailed(error.kind())),
        }
        Ok(true)
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

    /// Writes from the queue when the socket accepts bytes again, and protocol messages of TLS.
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

    /// Registers for writability only while bytes wait: with both directions, each acknowledgement
    /// would wake the loop.
    fn update_interest(&mut self, conn: usize, registry: &Registry) -> io::Result<()> {
        let waits = !self.queue.is_empty() || self.stream.wants_write();
        if waits == std::mem::replace(&mut self.awaits_writable, waits) {
            return Ok(());
        }
        let interest = match waits {
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
