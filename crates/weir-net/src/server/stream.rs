//! The socket of a connection, plain or with TLS around it. Plain ones pay one comparison.

use std::io::{self, Read};
use std::net::Shutdown;

use mio::net::TcpStream;

use super::tls_stream::TlsStream;
use crate::send_queue::{Flushed, SendQueue};

/// What bytes come from and go to.
#[derive(Debug)]
pub(super) enum SocketStream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

/// What one read brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Input {
    /// Bytes taken from the socket.
    pub(super) wire: usize,
    /// Bytes for the handler, at the front of the buffer.
    pub(super) plain: usize,
    /// Nothing more will come.
    pub(super) ended: bool,
    /// The socket is empty, and an event will tell of more.
    pub(super) drained: bool,
}

/// Buffers that all TLS connections of a shard share.
#[derive(Debug, Default)]
pub(super) struct TlsBuffers {
    /// Records as they come.
    pub(super) incoming: Vec<u8>,
    /// What the next records are made from.
    pub(super) plain: Vec<u8>,
    /// Records as they leave.
    pub(super) outgoing: Vec<u8>,
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
