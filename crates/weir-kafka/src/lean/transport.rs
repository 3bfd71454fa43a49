//! A socket with or without TLS. Plaintext reads go directly into the thread's buffer.

use std::cell::RefCell;

use tokio::net::TcpStream;

use super::socket_io::{Received, TransportError, try_write, would_block};
use super::tls::{TlsBuffers, TlsTransport};

pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsTransport>),
}

impl Transport {
    pub(super) fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(tls) => &tls.socket,
        }
    }

    /// Reads once. `None`: the socket has no bytes.
    pub(super) fn try_read(
        &mut self,
        out: &mut [u8],
        buffers: &RefCell<TlsBuffers>,
    ) -> Result<Option<Received>, TransportError> {
        match self {
            Self::Plain(socket) => match socket.try_read(out) {
                Ok(count) => Ok(Some(Received {
                    wire: count,
                    plain: count,
                })),
                Err(error) if would_block(&error) => Ok(None),
                Err(error) => Err(TransportError::Io(error)),
            },
            Self::Tls(tls) => tls.try_read(out, buffers),
        }
    }

    /// Sends bytes. Returns what remains to be written to the socket as it is.
    pub(super) fn try_send(
        &mut self,
        bytes: &[u8],
        buffers: &RefCell<TlsBuffers>,
    ) -> Result<Vec<u8>, TransportError> {
        match self {
            Self::Plain(socket) => {
                let taken = try_write(socket, bytes).map_err(TransportError::Io)?;
                // Usually all of it, so that this does not allocate.
                Ok(bytes[taken..].to_vec())
            }
            Self::Tls(tls) => tls.try_send(bytes, buffers),
        }
    }
}
