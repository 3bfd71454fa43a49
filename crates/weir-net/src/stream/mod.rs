//! Socket of a connection, plain or with TLS; for a plain one the distinction costs one comparison.

mod preface;
mod send_queue;
mod socket;
mod tls;

pub use preface::{HandshakeAlert, Preface, PrefaceError};
pub use send_queue::{Flushed, SendQueue};
pub use socket::{Input, connect_result};
pub use tls::{TlsBuffers, TlsStream};

use std::io::{self, IoSlice};
use std::net::{Shutdown, SocketAddr};

use mio::net::TcpStream;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;

use self::send_queue::SLICES_PER_WRITE;
use self::socket::{read_some, write_some};
use crate::tls::{ClientTls, TlsAcceptor};

/// A socket, plain or with TLS at either end.
#[derive(Debug)]
pub enum SocketStream {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS of a server.
    Server(Box<TlsStream<UnbufferedServerConnection>>),
    /// With TLS of a client.
    Client(Box<TlsStream<UnbufferedClientConnection>>),
}

impl SocketStream {
    /// Creates the stream of an accepted socket.
    pub fn accepted(socket: TcpStream, tls: Option<&TlsAcceptor>) -> io::Result<Self> {
        let Some(tls) = tls else {
            return Ok(Self::Plain(socket));
        };
        let session = tls.accept().map_err(io::Error::other)?;
        Ok(Self::Server(Box::new(TlsStream::new(socket, session))))
    }

    /// Creates the stream of a socket that is being connected, to a server with a name if it uses
    /// TLS.
    pub fn connecting(
        socket: TcpStream,
        tls: Option<(&ClientTls, ServerName<'static>)>,
    ) -> io::Result<Self> {
        let Some((tls, name)) = tls else {
            return Ok(Self::Plain(socket));
        };
        let session = tls.connect(name).map_err(io::Error::other)?;
        Ok(Self::Client(Box::new(TlsStream::new(socket, session))))
    }

    /// Returns the underlying socket.
    pub fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Server(tls) => &mut tls.socket,
            Self::Client(tls) => &mut tls.socket,
        }
    }

    /// Returns the local address of the socket.
    pub fn local_address(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Plain(socket) => socket.local_addr(),
            Self::Server(tls) => tls.socket.local_addr(),
            Self::Client(tls) => tls.socket.local_addr(),
        }
    }

    /// Returns `true` if the stream does not use TLS.
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Returns the verified certificate of a client, in DER form.
    pub fn client_certificate(&self) -> Option<&[u8]> {
        match self {
            Self::Plain(_) | Self::Client(_) => None,
            Self::Server(tls) => tls.peer_certificate(),
        }
    }

    /// Returns `true` during the TLS handshake.
    pub fn is_handshaking(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Server(tls) => tls.is_handshaking(),
            Self::Client(tls) => tls.is_handshaking(),
        }
    }

    /// Returns `true` if TLS records wait for the socket.
    pub fn wants_write(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Server(tls) => tls.wants_write(),
            Self::Client(tls) => tls.wants_write(),
        }
    }

    /// Reads once.
    ///
    /// # Errors
    /// The connection failed. A violation of TLS is `InvalidData` with a [`rustls::Error`].
    pub fn read(&mut self, out: &mut [u8], buffers: &mut TlsBuffers) -> io::Result<Input> {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Server(tls) => return tls.read(out, buffers),
            Self::Client(tls) => return tls.read(out, buffers),
        };
        match read_some(socket, out)? {
            None => Ok(Input {
                drained: true,
                ..Input::default()
            }),
            Some(count) => Ok(Input {
                wire: count,
                plain: count,
                ended: count == 0,
                drained: count < out.len(),
            }),
        }
    }

    /// Writes as much of a queue as the socket accepts. With `last`, nothing follows, so TLS sends
    /// close_notify.
    pub fn flush(
        &mut self,
        queue: &mut SendQueue,
        buffers: &mut TlsBuffers,
        last: bool,
    ) -> io::Result<Flushed> {
        match self {
            Self::Plain(socket) => queue.flush(socket),
            Self::Server(tls) => tls.flush(queue, buffers, last),
            Self::Client(tls) => tls.flush(queue, buffers, last),
        }
    }

    /// Writes `slices` after the bytes of a queue. The queue stores a copy of what the socket does
    /// not accept; a plain socket with an empty queue needs no other copy.
    pub fn send(
        &mut self,
        slices: &[IoSlice<'_>],
        queue: &mut SendQueue,
        buffers: &mut TlsBuffers,
    ) -> io::Result<Flushed> {
        let mut flushed = Flushed::default();
        let is_first = queue.is_empty();
        let mut has_more = is_first;
        if let (Self::Plain(socket), true) = (&mut *self, is_first) {
            let first = &slices[..slices.len().min(SLICES_PER_WRITE)];
            flushed.calls = 1;
            flushed.bytes = write_some(socket, first)?;
            let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
            flushed.done = flushed.bytes == bytes;
            if flushed.done {
                return Ok(flushed);
            }
            has_more = slices.len() > first.len();
        }
        queue.push_copy(slices, flushed.bytes);
        if has_more {
            let more = self.flush(queue, buffers, false)?;
            flushed.bytes += more.bytes;
            flushed.calls += more.calls;
        }
        flushed.done = queue.is_empty();
        Ok(flushed)
    }

    /// Closes the sending direction, with close_notify if the socket accepts it.
    pub fn finish(&mut self, buffers: &mut TlsBuffers) {
        if !self.is_plain() {
            // A peer that reads nothing more sees the close of the socket.
            let _ = self.flush(&mut SendQueue::default(), buffers, true);
        }
        // Fails if the peer has already closed the connection, which has the same effect.
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

#[cfg(test)]
mod tests;
