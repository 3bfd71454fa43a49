//! The socket of a connection, plain or with TLS around it. Plain ones pay one comparison.

use std::io::{self, Read};
use std::net::Shutdown;

use mio::net::TcpStream;

use super::tls_stream::{Input, TlsBuffers, TlsStream};
use crate::send_queue::{Flushed, SendQueue};

/// What bytes come from and go to.
#[derive(Debug)]
pub(super) enum SocketStream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

impl SocketStream {
    /// The socket itself.
    pub(super) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(sealed) => &mut sealed.socket,
        }
    }

    /// Reads once; `WouldBlock` when nothing is there.
    pub(super) fn read(&mut self, out: &mut [u8], tls: &mut TlsBuffers) -> io::Result<Input> {
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
            Self::Tls(sealed) => sealed.read(out, tls),
        }
    }

    /// Whether an answer of TLS itself waits to be written.
    pub(super) fn wants_write(&self) -> bool {
        matches!(self, Self::Tls(sealed) if sealed.wants_write())
    }

    /// Whether the handshake is still under way.
    pub(super) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(sealed) if sealed.is_handshaking())
    }

    /// Writes as much as the socket takes. `last`: nothing follows, so TLS says goodbye.
    pub(super) fn flush(
        &mut self,
        outbox: &mut SendQueue,
        tls: &mut TlsBuffers,
        last: bool,
    ) -> io::Result<Flushed> {
        match self {
            Self::Plain(socket) => outbox.flush(socket),
            Self::Tls(sealed) => sealed.flush(outbox, tls, last),
        }
    }

    /// Closes our direction.
    pub(super) fn finish(&mut self) {
        // A peer that is gone already makes this fail, which changes nothing.
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}
