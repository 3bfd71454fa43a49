//! TLS over a socket of the runtime, as a state machine without tasks.
//!
//! A connection stores only received bytes of an incomplete record and messages of TLS that the
//! socket has not taken; encryption and decryption use buffers that all connections of the thread
//! share. Thousands of idle connections so have no buffers of their own, where a buffering
//! `rustls::ClientConnection` has at least 4 KiB each.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, InsufficientSizeError,
    UnbufferedStatus,
};
use tokio::net::TcpStream;

use super::socket_io::{Received, TransportError, try_write};

/// Buffers that all encrypted connections of a thread share.
#[derive(Debug, Default)]
pub(super) struct TlsBuffers {
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

pub(super) struct TlsTransport {
    pub(super) socket: TcpStream,
    tls: UnbufferedClientConnection,
    /// Received bytes of an incomplete record.
    partial: Vec<u8>,
    /// Messages of TLS that the socket has not taken.
    outgoing: Vec<u8>,
    peer_closed: bool,
}

struct Decrypted {
    plain: usize,
    /// Number of processed bytes at the front.
    used: usize,
    failed: Option<rustls::Error>,
}

impl TlsTransport {
    /// Creates the connection; the first message of the handshake is ready to be sent.
    pub(super) fn new(
        socket: TcpStream,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
        buffers: &RefCell<TlsBuffers>,
    ) -> Result<Self, TransportError> {
        let tls = UnbufferedClientConnection::new(config, name).map_err(TransportError::Tls)?;
        let mut transport = Self {
            socket,
            tls,
            partial: Vec::new(),
            outgoing: Vec::new(),
            peer_closed: false,
        };
        let outgoing = &mut buffers.borrow_mut().outgoing;
        let progress = transport.process(&mut [], &mut [], outgoing);
        match progress.failed {
            None => Ok(transport),
            Some(error) => Err(TransportError::Tls(error)),
        }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    #[cfg(test)]
    pub(super) fn buffered_bytes(&self) -> usize {
        self.partial.capacity() + self.outgoing.capacity()
    }

    #[cfg(test)]
    pub(super) fn handshake_kind(&self) -> Option<rustls::HandshakeKind> {
        self.tls.handshake_kind()
    }

    pub(super) fn wants_write(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends messages of TLS that are ready, as far as the socket takes them.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let taken = try_write(&self.socket, &self.outgoing)?;
        self.outgoing.drain(..taken);
        if self.outgoing.is_empty() {
            self.outgoing = Vec::new();
        }
        Ok(())
    }

    /// Reads once from the socket and decrypts into `out`, which is large enough for all of it.
    /// `None`: the socket has no bytes.
    pub(super) fn try_read(
        &mut self,
        out: &mut [u8],
        buffers: &RefCell<TlsBuffers>,
    ) -> Result<Option<Received>, TransportError> {
        if self.peer_closed {
            return Ok(Some(Received::default()));
        }
        let stored = self.partial.len();
        if stored > PARTIAL_BYTES_MAX {
            let error = io::Error::new(io::ErrorKind::InvalidData, "TLS record too large");
            return Err(TransportError::Io(error));
        }
        let mut buffers = buffers.borrow_mut();
        let TlsBuffers { incoming, outgoing } = &mut *buffers;
        // Plain text is shorter than the records that contain it.
        grow(incoming, out.len());
        let wire = match self.socket.try_read(&mut incoming[stored..out.len()]) {
            Ok(0) => return Ok(Some(Received::default())),
            Ok(wire) => wire,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(TransportError::Io(error)),
        };
        incoming[..stored].copy_from_slice(&self.partial);
        let filled = &mut incoming[..stored + wire];
        let progress = self.process(filled, out, outgoing);
        if let Some(error) = progress.failed {
            // The peer gets an alert; if sending fails, nothing changes.
            let _ = self.flush();
            return Err(TransportError::Tls(error));
        }
        self.partial.clear();
        self.partial.extend_from_slice(&filled[progress.used..]);
        if self.partial.is_empty() {
            // Most reads end with a complete record, so nothing is stored.
            self.partial = Vec::new();
        }
        self.flush().map_err(TransportError::Io)?;
        Ok(Some(Received {
            wire,
            plain: progress.plain,
        }))
    }

    /// Decrypts `incoming` into `out` and appends messages of TLS to the outgoing ones.
    fn process(&mut self, incoming: &mut [u8], out: &mut [u8], flight: &mut Vec<u8>) -> Decrypted {
        let mut progress = Decrypted {
            plain: 0,
            used: 0,
            failed: None,
        };
        loop {
            let records = &mut incoming[progress.used..];
            let UnbufferedStatus { mut discard, state } = self.tls.process_tls_records(records);
            let mut is_idle = false;
            match state {
                Err(error) => {
                    progress.failed = Some(error);
                    self.take_alert(&mut incoming[progress.used + discard..], flight);
                    return progress;
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                let bytes = record.payload;
                                out[progress.plain..][..bytes.len()].copy_from_slice(bytes);
                                progress.plain += bytes.len();
                            }
                            Err(error) => progress.failed = Some(error),
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let encoded = encode(&mut message, flight);
                    self.outgoing.extend_from_slice(&flight[..encoded]);
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                Ok(ConnectionState::PeerClosed) => self.peer_closed = true,
                // Blocked until more input arrives, ready to write, or closed.
                Ok(_) => is_idle = true,
            }
            progress.used += discard;
            if is_idle || progress.failed.is_some() {
                return progress;
            }
        }
    }

    /// Encodes the alert that follows an error.
    fn take_alert(&mut self, incoming: &mut [u8], flight: &mut Vec<u8>) {
        while self.tls.wants_write() {
            match self.tls.process_tls_records(incoming).state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let encoded = encode(&mut message, flight);
                    self.outgoing.extend_from_slice(&flight[..encoded]);
                }
                _ => return,
            }
        }
    }

    /// Encrypts and sends bytes. Returns the records that the socket has not taken.
    pub(super) fn try_send(
        &mut self,
        bytes: &[u8],
        buffers: &RefCell<TlsBuffers>,
    ) -> Result<Vec<u8>, TransportError> {
        let outgoing = &mut buffers.borrow_mut().outgoing;
        let encoded = self.encrypt(bytes, outgoing)?;
        self.flush().map_err(TransportError::Io)?;
        let records = &outgoing[..encoded];
        if self.wants_write() {
            // Earlier messages of TLS come first.
            let mut unsent = std::mem::take(&mut self.outgoing);
            unsent.extend_from_slice(records);
            return Ok(unsent);
        }
        let taken = try_write(&self.socket, records).map_err(TransportError::Io)?;
        Ok(records[taken..].to_vec())
    }

    fn encrypt(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<usize, TransportError> {
        loop {
            // An incomplete handshake message is passed again because rustls refers to it.
            let records = &mut self.partial;
            let UnbufferedStatus { discard, state } = self.tls.process_tls_records(records);
            let encoded = match state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let encoded = encode(&mut message, out);
                    self.outgoing.extend_from_slice(&out[..encoded]);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => {
                    transmit.done();
                    None
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let mut encoded = traffic.encrypt(bytes, out);
                    if let Err(EncryptError::InsufficientSize(size)) = &encoded {
                        let InsufficientSizeError { required_size, .. } = *size;
                        grow(out, required_size);
                        encoded = traffic.encrypt(bytes, out);
                    }
                    Some(encoded.map_err(closed)?)
                }
                Ok(_) => return Err(closed("the connection cannot be written")),
                Err(error) => return Err(TransportError::Tls(error)),
            };
            self.partial.drain(..discard);
            if let Some(encoded) = encoded {
                return Ok(encoded);
            }
        }
    }
}

/// Encodes a message of TLS and returns its length.
fn encode<D>(message: &mut EncodeTlsData<'_, D>, out: &mut Vec<u8>) -> usize {
    let mut encoded = message.encode(out);
    if let Err(EncodeError::InsufficientSize(size)) = &encoded {
        grow(out, size.required_size);
        encoded = message.encode(out);
    }
    // The buffer is large enough now; a message is never encoded twice.
    encoded.unwrap_or(0)
}

fn closed(reason: impl ToString) -> TransportError {
    let reason = reason.to_string();
    TransportError::Io(io::Error::new(io::ErrorKind::ConnectionAborted, reason))
}

fn grow(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
}

/// Maximum size of an incomplete record or handshake message, with its overhead. rustls rejects
/// larger ones.
const PARTIAL_BYTES_MAX: usize = 80 * 1024;
