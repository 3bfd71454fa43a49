//! One outgoing connection: socket, state and write queue.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::time::Instant;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use super::tls::TlsSession;
use super::{ClientOptions, DisconnectReason};

/// An outgoing connection.
#[derive(Debug)]
pub(super) struct ClientConnection {
    pub(super) stream: TcpStream,
    pub(super) state: SocketState,
    /// TLS session, if the server uses TLS.
    pub(super) tls: Option<Box<TlsSession>>,
    /// Bytes that the socket has not accepted; unallocated while empty.
    queue: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketState {
    Connecting { since: Instant },
    Open,
}

impl ClientConnection {
    /// Starts to connect from the source address of this connection.
    pub(super) fn start(
        options: &ClientOptions,
        conn: usize,
        registry: &Registry,
        now: Instant,
    ) -> io::Result<Self> {
        let server = options.server_of(conn);
        let tls = options.session_of(conn)?;
        let socket = Socket::new(
            Domain::for_address(server),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        socket.set_nonblocking(true)?;
        socket.set_tcp_nodelay(true)?;
        if let Some(source) = options.sources.address(conn) {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        match socket.connect(&server.into()) {
            Ok(()) => {}
            Err(error) if is_in_progress(&error) => {}
            Err(error) => return Err(error),
        }
        let mut stream = TcpStream::from_std(socket.into());
        registry.register(
            &mut stream,
            Token(conn),
            Interest::READABLE | Interest::WRITABLE,
        )?;
        Ok(Self {
            stream,
            state: SocketState::Connecting { since: now },
            tls,
            queue: Vec::new(),
        })
    }

    /// Completes the connection attempt. Returns `Ok(false)` if it is still in progress.
    pub(super) fn finish_connect(
        &mut self,
        conn: usize,
        registry: &Registry,
    ) -> Result<bool, DisconnectReason> {
        if let Ok(Some(error)) | Err(error) = self.stream.take_error() {
            return Err(DisconnectReason::ConnectFailed(error.kind()));
        }
        match self.stream.peer_addr() {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(false),
            Err(error) => return Err(DisconnectReason::ConnectFailed(error.kind())),
        }
        self.state = SocketState::Open;
        // Registered for reads only: with both, each acknowledgement would wake the loop.
        registry
            .reregister(&mut self.stream, Token(conn), Interest::READABLE)
            .map_err(|error| DisconnectReason::Failed(error.kind()))?;
        Ok(true)
    }

    /// Writes `bytes`, queueing what the socket does not accept. Returns the number of bytes to
    /// transmit, including TLS.
    pub(super) fn send(
        &mut self,
        bytes: &[u8],
        queue_bytes_max: usize,
        conn: usize,
        registry: &Registry,
    ) -> Result<usize, DisconnectReason> {
        let Some(tls) = &mut self.tls else {
            self.write_or_queue(bytes, queue_bytes_max, conn, registry)?;
            return Ok(bytes.len());
        };
        let records = tls.encrypt_records(bytes)?;
        self.write_or_queue(&records, queue_bytes_max, conn, registry)?;
        Ok(records.len())
    }

    fn write_or_queue(
        &mut self,
        bytes: &[u8],
        queue_bytes_max: usize,
        conn: usize,
        registry: &Registry,
    ) -> Result<(), DisconnectReason> {
        let mut rest = bytes;
        if self.queue.is_empty() && self.state == SocketState::Open {
            let written = self.write_some(rest)?;
            rest = &rest[written..];
        }
        if rest.is_empty() {
            return Ok(());
        }
        if self.queue.len() + rest.len() > queue_bytes_max {
            return Err(DisconnectReason::WriteQueueFull);
        }
        if self.queue.is_empty() && self.state == SocketState::Open {
            let both = Interest::READABLE | Interest::WRITABLE;
            registry
                .reregister(&mut self.stream, Token(conn), both)
                .map_err(|error| DisconnectReason::Failed(error.kind()))?;
        }
        self.queue.extend_from_slice(rest);
        Ok(())
    }

    /// Writes from the queue when the socket accepts bytes again.
    pub(super) fn flush(
        &mut self,
        conn: usize,
        registry: &Registry,
    ) -> Result<(), DisconnectReason> {
        if self.queue.is_empty() {
            return Ok(());
        }
        let queue = std::mem::take(&mut self.queue);
        let written = self.write_some(&queue)?;
        if written < queue.len() {
            self.queue = queue;
            self.queue.drain(..written);
            return Ok(());
        }
        registry
            .reregister(&mut self.stream, Token(conn), Interest::READABLE)
            .map_err(|error| DisconnectReason::Failed(error.kind()))
    }

    /// Writes until all bytes are written or the socket is full. Returns how many it accepted.
    fn write_some(&mut self, bytes: &[u8]) -> Result<usize, DisconnectReason> {
        let mut written = 0;
        while written < bytes.len() {
            match self.stream.write(&bytes[written..]) {
                Ok(0) => return Err(DisconnectReason::Failed(io::ErrorKind::WriteZero)),
                Ok(accepted) => written += accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(DisconnectReason::Failed(error.kind())),
            }
        }
        Ok(written)
    }
}

fn is_in_progress(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock || error.raw_os_error() == Some(EINPROGRESS)
}

/// Value on Linux, on all supported architectures; `std` has no stable name for it.
const EINPROGRESS: i32 = 115;
