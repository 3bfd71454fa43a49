//! Socket of a connection, plain or with TLS; for a plain one the distinction costs one comparison.

use std::io::{self, Read};
use std::net::Shutdown;

use mio::net::TcpStream;

use super::tls_stream::{Input, TlsBuffers, TlsStream};
use crate::send_queue::{Flushed, SendQueue};

/// A socket, plain or with TLS.
#[derive(Debug)]
pub(super) enum SocketStream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl SocketStream {
    /// Returns the underlying socket.
    pub(super) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &mut tls.socket,
        }
    }

    /// Reads once.
    ///
    /// # Errors
    /// `WouldBlock` if the socket is empty.
    pub(super) fn read(&mut self, out: &mut [u8], buffers: &mut TlsBuffers) -> io::Result<Input> {
        match self {
            Self::Plain(socket) => {
                let count = socket.read(out)?;
                Ok(Input {
                    wire: count,
                    plain: count,
                    ended: count == 0,
                    drained: count < out.len(),
                })
            }
            Self::Tls(tls) => tls.read(out, buffers),
        }
    }

    /// Returns `true` if TLS has protocol messages to write.
    pub(super) fn wants_write(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.wants_write())
    }

    /// Returns `true` during the TLS handshake.
    pub(super) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(tls) if tls.is_handshaking())
    }

    /// Writes as much as the socket accepts. With `last`, nothing follows, so TLS sends
    /// close_notify.
    pub(super) fn flush(
        &mut self,
        send_queue: &mut SendQueue,
        buffers: &mut TlsBuffers,
        last: bool,
    ) -> io::Result<Flushed> {
        match self {
            Self::Plain(socket) => send_queue.flush(socket),
            Self::Tls(tls) => tls.flush(send_queue, buffers, last),
        }
    }

    /// Closes the sending direction.
    pub(super) fn finish(&mut self) {
        // Fails if the peer has already closed the connection, which has the same effect.
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}
